// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peercache/peercache/operator/fleet"
)

// members simulates the HTTP servers of the nodes. Each answers /v1/status as a discovery host that knows all ready nodes. An
// answer has the fields and so the size of a real one.
type members struct {
	config config
	port   int
	server *http.Server

	asked, answered atomic.Int64 // requests and bytes

	mu     sync.Mutex
	list   []member
	groups []int // the number of members of each group
	body   []byte
}

// member has all fields that a node writes. The operator reads some of them.
type member struct {
	ID            string `json:"id"`
	Incarnation   uint64 `json:"incarnation"`
	State         string `json:"state"`
	Address       string `json:"address"`
	HTTPPort      int    `json:"http_port"`
	CapacityBytes uint64 `json:"capacity_bytes"`
	Breaker       string `json:"breaker"`
	Reachable     bool   `json:"reachable"`
	Health        health `json:"health"`
}

type health struct {
	AgeSeconds    float64 `json:"age_seconds"`
	Group         string  `json:"group"`
	Rails         int     `json:"rails"`
	RailsUp       int     `json:"rails_up"`
	NUMA          string  `json:"numa"`
	Engines       int     `json:"engines"`
	RecentLooked  uint64  `json:"recent_looked_up"`
	RecentGot     uint64  `json:"recent_delivered"`
	LatestLooked  uint64  `json:"latest_looked_up"`
	LatestGot     uint64  `json:"latest_delivered"`
	PoolUsedBytes uint64  `json:"pool_used_bytes"`
}

const poolBytes = 64 << 30

func newMembers(c config, port int) *members {
	m := &members{config: c, port: port, groups: make([]int, c.groups)}
	m.server = &http.Server{Handler: http.HandlerFunc(m.serve), ReadHeaderTimeout: 10 * time.Second}
	return m
}

// listen starts the HTTP server of the node with this address.
func (m *members) listen(ctx context.Context, ip string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(m.port)))
	if err != nil {
		return fmt.Errorf("playing the node at %s: %w", ip, err)
	}
	go func() { _ = m.server.Serve(listener) }() // it returns when the server is closed
	return nil
}

func (m *members) close() error {
	if err := m.server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("closing the nodes' HTTP servers: %w", err)
	}
	return nil
}

// join adds a node that has become ready.
func (m *members) join(machine string, group int, ip string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.groups[group]++
	m.body = nil
	m.list = append(m.list, member{
		ID: machine + "." + groupName(group), Incarnation: uint64(time.Now().UnixNano()),
		State: fleet.StateActive, Address: net.JoinHostPort(ip, "31998"), HTTPPort: m.port, CapacityBytes: poolBytes,
		Breaker: "closed", Reachable: true, Health: health{
			AgeSeconds: 0.123456789, Group: groupName(group), Rails: m.config.rails, RailsUp: m.config.rails, NUMA: "aligned",
			RecentLooked: 123456, RecentGot: 98765, LatestLooked: 10288, LatestGot: 8230, PoolUsedBytes: poolBytes / 10 * 9,
		},
	})
}

func (m *members) serve(w http.ResponseWriter, _ *http.Request) {
	body, err := m.status()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	m.asked.Add(1)
	m.answered.Add(int64(len(body)))
	_, _ = w.Write(body)
}

// size is the size of an answer in bytes.
func (m *members) size() int {
	body, _ := m.status() // serve reports the error
	return len(body)
}

func (m *members) status() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.body != nil {
		return m.body, nil
	}
	all := len(m.list)
	sum := fleet.Fleet{
		Members: all, Rails: fleet.RailSum{Total: all * m.config.rails, Up: all * m.config.rails},
		NUMA: fleet.Placement{Aligned: all}, RecentLookedUp: 123456, RecentDelivered: 98765, // constant, so that the status does not change later
		Pool: fleet.PoolSum{UsedBytes: uint64(all) * poolBytes / 10 * 9, CapacityBytes: uint64(all) * poolBytes},
	}
	for group, n := range m.groups {
		rails := n * m.config.rails
		sum.Groups = append(sum.Groups, fleet.GroupSum{Name: groupName(group), Members: n, Rails: rails, RailsUp: rails})
	}
	body, err := json.Marshal(map[string]any{
		"node": fleet.Node{ID: "host", State: fleet.StateActive, Ready: true}, "members": m.list, "fleet": sum,
	})
	m.body = body
	return body, err
}
