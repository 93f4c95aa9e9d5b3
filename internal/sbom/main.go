// SPDX-License-Identifier: Apache-2.0

// Command sbom writes what is in an image, a docker archive, as SPDX 2.3 in JSON: the packages of Debian, the modules of
// which its programs in Go are built, and what its other programs are compiled from, each with its licence.
// hack/release/sbom.sh runs it for each image of a release.
//
//	go run ./internal/sbom ghcr.io/peercache/peercache/operator:0.1.0 operator-0.1.0.tar >operator.spdx.json
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string, output io.Writer) error {
	if len(args) != 2 {
		return errors.New("write sbom IMAGE ARCHIVE, such as: sbom ghcr.io/peercache/peercache/operator:0.1.0 operator-0.1.0.tar")
	}
	image, err := readImage(args[1])
	if err != nil {
		return fmt.Errorf("reading %s, which must be an image as `docker save` writes one: %w", args[1], err)
	}
	if len(image.parts) == 0 {
		return fmt.Errorf("nothing is known of what is in %s: it has neither packages of Debian nor programs in Go", args[1])
	}
	encoder := json.NewEncoder(output)
	encoder.SetIndent("", "  ")
	return encoder.Encode(describe(args[0], image))
}
