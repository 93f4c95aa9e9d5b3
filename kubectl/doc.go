// SPDX-License-Identifier: Apache-2.0

// Package kubectl is PeerCache's plug-in of kubectl. The binary kubectl-peercache (cmd/kubectl-peercache), anywhere on
// PATH, is `kubectl peercache`; docs/kubectl.md is its manual.
//
// A command reads, builds a report and prints it:
//   - access.go reads objects and reaches pods through the API server (proxy, exec, logs), so that the plug-in works
//     wherever kubectl does; nodes.go asks the nodes of a cluster concurrently;
//   - a pure function builds the report: plain values, which -o json and -o yaml print as they are;
//   - the report writes itself as text for people (report.text), with the tables of table.go.
//
// Each command has one file. Only drain.go, bypass.go, rotate.go and discoverpods.go change Kubernetes objects: labels of a
// machine, a field and an annotation of a PeerCacheCluster, and pods that are deleted at once. The operator does not import this package.
package kubectl
