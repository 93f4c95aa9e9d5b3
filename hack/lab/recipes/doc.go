// SPDX-License-Identifier: Apache-2.0

// Package recipes runs the controller of LeaderWorkerSets beside the webhook, on a real API server. It is a module of its own, so
// that the operator does not depend on what it is tested with:
//
//	make test-envtest
package recipes
