// SPDX-License-Identifier: Apache-2.0

// olm writes the bundle by which the Operator Lifecycle Manager installs PeerCache:
//
//	go run . ../../.. ../../../dist/olm
//
// What is installed comes from config/, as for kustomize: the deployment, the operator's rights, the webhook and the CRD.
// Only what OLM shows of it is written by hand, in clusterserviceversion.yaml.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: olm SOURCES BUNDLE, for example: go run . ../../.. ../../../dist/olm")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "olm:", err)
		os.Exit(1)
	}
}

func run(sources, bundle string) error {
	in, err := read(sources)
	if err != nil {
		return err
	}
	files, err := build(in)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(bundle); err != nil { //nolint:gosec // what its caller names
		return fmt.Errorf("removing the bundle of before: %w", err)
	}
	for name, content := range files {
		path := filepath.Join(bundle, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // for everybody
			return fmt.Errorf("making the bundle: %w", err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // for everybody
			return fmt.Errorf("writing the bundle: %w", err)
		}
	}
	return nil
}
