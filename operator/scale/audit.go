// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
)

// auditPolicy logs every request of the operator and no others. The metrics of the API server do not count by user, and this
// program writes the same kinds as the operator.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - {level: Metadata, users: ["` + operatorUser + `"]}
  - {level: None}
`

// call is a kind of request, for example "patch" of "peercacheclusters/status".
type call struct{ verb, resource string }

func (c call) String() string { return c.verb + " " + c.resource }

// isLease is true for the renewals of the leader, which do not depend on the size of the cluster and are counted
// separately.
func (c call) isLease() bool { return c.resource == "leases" }

func (c call) isWrite() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, c.verb)
}

// tally counts requests by kind.
type tally map[call]int

// since returns the requests since an earlier tally.
func (t tally) since(before tally) tally {
	added := tally{}
	for kind, n := range t {
		if more := n - before[kind]; more > 0 {
			added[kind] = more
		}
	}
	return added
}

// writes returns the requests that change an object other than a lease.
func (t tally) writes() tally {
	return t.only(func(c call) bool { return c.isWrite() && !c.isLease() })
}

func (t tally) only(wanted func(call) bool) tally {
	found := maps.Clone(t)
	maps.DeleteFunc(found, func(kind call, _ int) bool { return !wanted(kind) })
	return found
}

func (t tally) sum() int {
	sum := 0
	for _, n := range t {
		sum += n
	}
	return sum
}

// byName is for JSON.
func (t tally) byName() map[string]int {
	names := map[string]int{}
	for kind, n := range t {
		names[kind.String()] = n
	}
	return names
}

// auditLog follows the audit log of the API server.
type auditLog struct {
	file string

	mu     sync.Mutex
	offset int64
	rest   []byte // the beginning of an incomplete line
	counts tally
}

func newAuditLog(file string) *auditLog { return &auditLog{file: file, counts: tally{}} }

// read counts the new lines, and returns all counts so far.
func (a *auditLog) read() (tally, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	file, err := os.Open(a.file)
	if errors.Is(err, os.ErrNotExist) {
		return maps.Clone(a.counts), nil // no request was logged yet
	}
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	added, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	a.offset += int64(len(added))
	lines := bytes.Split(append(a.rest, added...), []byte("\n"))
	a.rest = bytes.Clone(lines[len(lines)-1])
	for _, line := range lines[:len(lines)-1] {
		kind, err := parseAudit(line)
		if err != nil {
			return nil, err
		}
		a.counts[kind]++
	}
	return maps.Clone(a.counts), nil
}

func parseAudit(line []byte) (call, error) {
	var entry struct {
		Verb       string `json:"verb"`
		RequestURI string `json:"requestURI"`
		ObjectRef  *struct {
			Resource    string `json:"resource"`
			Subresource string `json:"subresource"`
		} `json:"objectRef"`
	}
	if err := json.Unmarshal(line, &entry); err != nil {
		return call{}, fmt.Errorf("reading a line of the audit log: %w", err)
	}
	kind := call{verb: entry.Verb, resource: entry.RequestURI} // requests for the discovery of kinds have no resource
	if ref := entry.ObjectRef; ref != nil {
		kind.resource = ref.Resource
		if ref.Subresource != "" {
			kind.resource += "/" + ref.Subresource
		}
	}
	return kind, nil
}
