// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestImagesComeFromFlagThenEnvironmentThenRelease(t *testing.T) {
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want string
	}{
		{"release", nil, nil, "ghcr.io/peercache/peercache/dataplane:" + version},
		{"environment", nil, map[string]string{"PEERCACHE_DATAPLANE_IMAGE": "env:1"}, "env:1"},
		{"flag", []string{"--dataplane-image=flag:1"}, map[string]string{"PEERCACHE_DATAPLANE_IMAGE": "env:1"}, "flag:1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{"--namespace=ns"}, test.args...)
			got, err := parseFlags(args, func(name string) string { return test.env[name] }, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if got.dataplaneImage != test.want {
				t.Errorf("got %q, want %q", got.dataplaneImage, test.want)
			}
		})
	}
}

func TestBadFlagsSayWhatToWrite(t *testing.T) {
	tests := []struct {
		args []string
		says string
	}{
		{[]string{"--webhook=on"}, "write enabled or disabled"},
		{[]string{"--webhook-port=70000"}, "from 1 to 65535"},
		{[]string{"--webhook=disabled", "--webhook-certificates=/certs"}, "leave one of them out"},
		{[]string{"--webhook=disabled", "--webhook-client-ca=/ca.crt"}, "leave one of them out"},
		{[]string{"--webhook=disabled", "--metrics-tls"}, "leave one of them out"},
		{[]string{"--webhook-client-names=a"}, "without --webhook-client-ca"},
		{[]string{"--namespace=ns", "--tracing-endpoint=collector:4318"}, "--tracing-endpoint=collector:4318 is not an address of a collector: " +
			"write scheme, host and port, as in http://collector:4318"},
		{[]string{"--namespace=ns", "--runbooks=docs/runbooks"}, "--runbooks=docs/runbooks is not an address of pages: write for example https://"},
		{[]string{"--namespace=ns", "--runbooks="}, "--runbooks= is not an address of pages"},
		{[]string{"--namespace=ns", "--watch-namespaces=a,,b"}, `--watch-namespaces=a,,b has ""`},
		{[]string{"--namespace=ns", "--watch-namespaces=a,a"}, "such as team-a,team-b"},
		{[]string{"--namespace=ns", "--watch-namespaces=A"}, "no name of a namespace"},
		{[]string{"run"}, `unexpected argument "run"`},
		{nil, "--namespace=peercache-system"},
		{[]string{"--webhook=disabled", "--leader-elect"}, "--namespace=peercache-system"},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			_, err := parseFlags(test.args, func(string) string { return "" }, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want it to say %q", err, test.says)
			}
		})
	}
}

func TestRunbooksAreOfTheRelease(t *testing.T) {
	for version, want := range map[string]string{
		"0.2.0": "https://github.com/peercache/peercache/blob/v0.2.0/docs/runbooks", "0.0.0-unreleased": "https://github.com/peercache/peercache/blob/main/docs/runbooks",
	} {
		if got := runbooksOf(version); got != want {
			t.Errorf("runbooks of %s are at %s, want %s", version, got, want)
		}
	}
	o, err := parseFlags([]string{"--namespace=ns", "--runbooks=https://wiki.example.com/peercache"}, func(string) string { return "" }, io.Discard)
	if err != nil || o.runbooks != "https://wiki.example.com/peercache" {
		t.Errorf("runbooks are at %q (error %v)", o.runbooks, err)
	}
}

func TestNoNamespaceIsNeededWithoutWebhookAndElection(t *testing.T) {
	if _, err := parseFlags([]string{"--webhook=disabled"}, func(string) string { return "" }, io.Discard); err != nil {
		t.Error(err)
	}
}

func TestHelpAndVersion(t *testing.T) {
	var output strings.Builder
	if _, err := parseFlags([]string{"--help"}, func(string) string { return "" }, &output); !errors.Is(err, errHelp) {
		t.Errorf("--help gave %v", err)
	}
	for _, flag := range []string{"-dataplane-image", "-leader-elect", "-webhook", "-version"} {
		if !strings.Contains(output.String(), flag) {
			t.Errorf("--help does not explain %s", flag)
		}
	}
	got, err := parseFlags([]string{"--version"}, func(string) string { return "" }, io.Discard)
	if err != nil || !got.showVersion {
		t.Errorf("--version gave %v, %v", got.showVersion, err)
	}
}
