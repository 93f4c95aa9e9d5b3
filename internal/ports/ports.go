// SPDX-License-Identifier: Apache-2.0

// Package ports has TCP ports for servers that start later, for tests and for `make scale`.
package ports

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
)

// Kubernetes has node ports from 30000.
const first, end = 15000, 30000

// The end of the process frees them.
var (
	mu     sync.Mutex
	claims []net.Listener
)

// Claim returns a port that nobody else gets while this process lives, and that the kernel gives to no connection.
//
// A port that was bound to 0 and closed may be anybody's before its server listens.
func Claim(ctx context.Context) (int, error) {
	count := endOfPorts() - first
	start := rand.IntN(count) //nolint:gosec // not a secret
	for n := range count {
		port := first + (start+n)%count
		if claimed := claim(ctx, port); claimed != nil {
			mu.Lock()
			defer mu.Unlock()
			claims = append(claims, claimed)
			return port, nil
		}
	}
	return 0, fmt.Errorf("no TCP port from %d to %d is free: end the processes that listen", first, first+count)
}

// Address claims a port of 127.0.0.1.
func Address(ctx context.Context) (string, error) {
	port, err := Claim(ctx)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// endOfPorts is where the ports begin that the kernel gives to connections, or node ports do.
func endOfPorts() int {
	content, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return end
	}
	var connections int
	if _, err := fmt.Sscan(string(content), &connections); err != nil || connections <= first+1000 { // the claim still keeps servers apart
		return end
	}
	return min(connections, end)
}

// claim returns what holds a port until it is closed, and nil when somebody has the port. The tests in C++ and Python
// claim the same name, so no two processes of a network namespace have a port.
func claim(ctx context.Context, port int) net.Listener {
	claimed, err := (&net.ListenConfig{}).Listen(ctx, "unix", fmt.Sprintf("@peercache-test-port-%d", port))
	if err != nil {
		return nil
	}
	// Somebody who claims nothing may have it.
	probe, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		_ = claimed.Close()
		return nil
	}
	_ = probe.Close()
	return claimed
}
