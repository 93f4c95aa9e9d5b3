// SPDX-License-Identifier: Apache-2.0

// Package kubectl is PeerCache's plug-in of kubectl. The binary kubectl-peercache (cmd/kubectl-peercache),
// anywhere on PATH, is `kubectl peercache`; docs/kubectl.md is its manual.
//
// A command gathers, concludes and prints:
//   - gathering is thin: access.go reads objects and reaches pods through the API server (proxy, exec, logs), so
//     that it works from wherever kubectl does; nodes.go asks all nodes of a cluster at once;
//   - a pure function makes a report of that: plain values, which -o json and -o yaml print as they are;
//   - the report writes itself as text for people (report.text), with tables of table.go.
//
// One command has one file. Nothing here changes a Kubernetes object but drain.go, which labels machines. The operator
// does not import this package.
package kubectl
