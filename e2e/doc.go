// SPDX-License-Identifier: Apache-2.0

// Package e2e proves PeerCache on a real cluster of at least three nodes: Helm installs the operator, a
// PeerCacheCluster brings up the nodes, and SGLang's own HiCache, in pods that carry nothing but a label,
// writes pages on one machine and reads them on another, while parts are stopped, killed and cut off.
//
//	make e2e            cluster, images and the whole suite
//	e2e/run.sh -ginkgo.focus='14 scenarios'
//
// The suite carries the build tag e2e. It needs KUBECONFIG, helm, kubectl and kubectl-peercache on PATH, the images on every machine
// (ghcr.io/peercache/peercache/*:<VERSION>), and PEERCACHE_CLUSTER_HOOKS, the program that reaches below Kubernetes:
//
//	HOOKS node-exec NODE CMD...        run a command on a machine
//	HOOKS node-link NODE up|down       plug or unplug its network
//	HOOKS node-restart NODE            turn it off and on again: its memory is lost, its disk is not
//	HOOKS control-plane stop|start     stop or start the API server
//	HOOKS fabric up|down               install or remove Multus and whereabouts; machines have a second network, at fabric0
//	HOOKS monitoring up|down           install or remove the Prometheus Operator and a Prometheus that scrapes all namespaces
//	HOOKS dra up|down                  install or remove a driver of dynamic resource allocation that stands for DraNet
//	HOOKS lws up|down                  install or remove LeaderWorkerSets
//	HOOKS policies up|down             install or remove what enforces NetworkPolicies
//	HOOKS registry up|down             install or remove a registry that machines pull from; prints its address
//
// hack/lab/cluster/cluster is one for both of its providers, except that kind has no second network. ARTIFACTS (default
// e2e/out) is the folder for the table of scenarios and, after a failure, for logs and events.
package e2e
