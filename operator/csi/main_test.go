// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestMain runs the tests in their own mount namespace, so that their mounts do not affect the machine.
func TestMain(m *testing.M) {
	const inside = "PEERCACHE_CSI_TEST_INSIDE"
	if os.Getenv(inside) != "" {
		slog.SetDefault(slog.New(slog.DiscardHandler))
		os.Exit(m.Run())
	}
	command := exec.Command(os.Args[0], os.Args[1:]...)
	command.Env = append(os.Environ(), inside+"=yes")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 { // in a new user namespace, every user may mount
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	err := command.Run()
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		os.Exit(failed.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "starting the tests in a mount namespace of their own:", err, "(run them as root)")
		os.Exit(1)
	}
}

func TestParseFlags(t *testing.T) {
	machine := func(string) string { return "machine-a" }
	o, err := parseFlags([]string{"--kubelet-dir=/data/kubelet"}, machine, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ got, want string }{
		{o.machine, "machine-a"},
		{o.csiSocket(), "/data/kubelet/plugins/csi.peercache.io/csi.sock"},
		{o.registrationSocket(), "/data/kubelet/plugins_registry/csi.peercache.io-reg.sock"},
		{o.pods(), "/data/kubelet/pods"},
	} {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
	for args, want := range map[string]string{
		"more":                        `unexpected argument "more"`,
		"--kubelet-dir=kubelet":       "write for example /var/lib/kubelet",
		"--kubelet-dir=/var/../etc":   "write for example /var/lib/kubelet",
		"--kubelet-dir=/var/kubelet/": "write for example /var/lib/kubelet",
		"--node-name=":                "NODE_NAME",
		"--socket=/x":                 "not defined",
	} {
		if _, err := parseFlags([]string{args}, machine, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", args, err, want)
		}
	}
}
