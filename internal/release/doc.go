// SPDX-License-Identifier: Apache-2.0

// Package release tests the scripts that make a release: the archives of the kubectl plug-in with the manifest of krew
// (kubectl/krew), and the provenance of images (hack/release). `make test-krew` builds the plug-in for every platform.
package release
