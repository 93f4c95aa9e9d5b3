// SPDX-License-Identifier: Apache-2.0

// Package fleet talks to the HTTP API of nodes.
//
//	answers, errs := fleet.NewClient().Ask(ctx, []string{"10.1.2.3:31997", "10.1.4.5:31997"})
//
// A node may be slow or dead, and an address may belong to another program. Every request is bounded in time and size, a few
// run concurrently, and a failure does not affect the others.
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// timeout bounds one request from connecting to the last byte.
	timeout = time.Second
	// maxConcurrent bounds the concurrent requests.
	maxConcurrent = 8
	// maxBody bounds an answer: ten thousand members with long names fit.
	maxBody = 4 << 20
)

// Client asks nodes for their status. It is safe for concurrent use.
type Client struct {
	http *http.Client
}

// NewClient returns a Client. It keeps no connections, because each node is asked seldom.
func NewClient() *Client {
	return &Client{http: &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy:             nil, // no proxy leads to the addresses of pods
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Ask requests the status of every address ("host:port"). It returns the answers in the order of the addresses, without the
// failed ones, and the joined errors of these.
func (c *Client) Ask(ctx context.Context, addresses []string) ([]NodeStatus, error) {
	results := make([]*NodeStatus, len(addresses))
	failures := make([]error, len(addresses))
	slots := make(chan struct{}, maxConcurrent)
	var wait sync.WaitGroup
	for i, address := range addresses {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			results[i], failures[i] = c.status(ctx, address)
		})
	}
	wait.Wait()

	answers := make([]NodeStatus, 0, len(results))
	for _, result := range results {
		if result != nil {
			answers = append(answers, *result)
		}
	}
	return answers, errors.Join(failures...)
}

func (c *Client) status(ctx context.Context, address string) (*NodeStatus, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/status", nil)
	if err != nil {
		return nil, fmt.Errorf("asking node %s for its status: %w", address, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking node %s for its status: %w", address, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking node %s for its status: HTTP %s", address, response.Status)
	}
	var status NodeStatus
	if err := json.NewDecoder(io.LimitReader(response.Body, maxBody)).Decode(&status); err != nil {
		return nil, fmt.Errorf("reading the status of node %s: %w", address, err)
	}
	return &status, nil
}
