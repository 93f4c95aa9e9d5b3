// SPDX-License-Identifier: Apache-2.0

// Command kubectl-peercache is `kubectl peercache`: it shows, examines and measures PeerCacheClusters. See
// package kubectl and docs/kubectl.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/peercache/peercache/kubectl"
)

// version is set by the linker: -ldflags "-X main.version=$(cat VERSION)".
var version = "0.0.0-unreleased"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := kubectl.Run(ctx, os.Args[1:], version,
		genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	stop()
	os.Exit(status)
}
