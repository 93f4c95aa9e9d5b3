// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/markdown"
)

// TestSamplesOfSharedPortsTakeNoWholeCores: k8s-rdma-shared-dev-plugin does not tell the kubelet where a port is. With a whole
// number of cores and cpuManagerPolicy: static, a member for each NUMA node may get the cores of the other one (docs/rails.md).
func TestSamplesOfSharedPortsTakeNoWholeCores(t *testing.T) {
	manifests := map[string]string{}
	samples, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range samples {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		manifests[file] = string(text)
	}
	pages, err := markdown.Files("../..", "README.md", "docs")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range pages {
		page, err := markdown.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range page.Blocks {
			if block.Language == "yaml" {
				manifests[file] += "\n---\n" + block.Text
			}
		}
	}
	checked := 0
	for file, manifest := range manifests {
		for document := range strings.SplitSeq(manifest, "\n---\n") {
			cluster := v1alpha1.PeerCacheCluster{}
			if yaml.Unmarshal([]byte(document), &cluster) != nil || cluster.Kind != "PeerCacheCluster" {
				continue
			}
			for _, rail := range cluster.Spec.Rails {
				if rail.Attachment == v1alpha1.AttachmentSharedDevicePlugin && rail.NUMANode != nil {
					checked++
					if cluster.Spec.Resources.CPU.MilliValue()%1000 == 0 {
						t.Errorf("%s: cluster %s asks for a whole number of cores, %s (0: the default of 1)", strings.TrimPrefix(file, "../../"), cluster.Name,
							cluster.Spec.Resources.CPU.String())
					}
					break
				}
			}
		}
	}
	if checked < 3 {
		t.Errorf("only %d clusters were found", checked)
	}
}
