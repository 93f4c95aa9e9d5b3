// SPDX-License-Identifier: Apache-2.0

// Package discover decides which ports of machines become the rails of a PeerCacheCluster, and writes its manifest. It is
// pure: what machines have comes from package machine, and what hands out their ports from the API server.
//
//   - choose.go picks the ports of one machine, and says why it leaves others out;
//   - compare.go refuses machines that differ, and says which differ and how;
//   - attach.go chooses how the ports reach pods: sriov.go by virtual functions, dra.go by claims; kubernetes.go is what the API
//     server says of that, and hand.go names for each rail what hands out its port;
//   - addresses.go finds what pods may use in a rail's subnet, and which rails reach each other;
//   - decide.go puts these together; manifest.go writes the result.
package discover
