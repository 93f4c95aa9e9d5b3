// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

const (
	each    = 100
	claimer = "PEERCACHE_TEST_CLAIMS_PORTS" // makes a process of this test one that only claims
)

func TestProcessesNeverGetTheSame(t *testing.T) {
	if os.Getenv(claimer) != "" {
		for range each {
			port, err := Claim(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println(port)
		}
		_, _ = io.ReadAll(os.Stdin) // has them as long as the other claims
		return
	}
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	other.Env = append(os.Environ(), claimer+"=1")
	input, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	lines := bufio.NewScanner(output)
	for range each {
		mine, err := Claim(t.Context())
		if err != nil || !lines.Scan() {
			t.Fatal(err, lines.Err())
		}
		theirs, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		seen[mine], seen[theirs] = true, true
		if claim(t.Context(), theirs) != nil {
			t.Errorf("port %d is claimed twice", theirs)
		}
	}
	if len(seen) != 2*each {
		t.Errorf("%d ports, want %d", len(seen), 2*each)
	}
	_ = input.Close()
	_, _ = io.Copy(io.Discard, output)
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
}

func TestAPortInUseIsNotGiven(t *testing.T) {
	server, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // of somebody who knows nothing of claims
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	address, ok := server.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal("no TCP address")
	}
	if claim(t.Context(), address.Port) != nil {
		t.Errorf("port %d is claimed", address.Port)
	}
}
