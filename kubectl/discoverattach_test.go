// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/operator/machine"
	"github.com/peercache/peercache/operator/machine/machinetest"
	"github.com/peercache/peercache/operator/plan"
)

const (
	eightPorts = "../operator/machine/testdata/hgx-h100.txt"
	functions  = "../operator/machine/testdata/sriov.txt"
)

// offering is a Kubernetes node whose device plug-ins offer four of each resource.
func offering(name string, resources ...string) *corev1.Node {
	node := labelledNode(name, "peercache.io/node=true")
	node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4"), corev1.ResourceCPU: resource.MustParse("64")}
	for _, name := range resources {
		node.Status.Allocatable[corev1.ResourceName(name)] = resource.MustParse("4")
	}
	return node
}

// functionNetwork attaches functions of a resource, with the addresses of a subnet.
func functionNetwork(name, resource, third string) *unstructured.Unstructured {
	network := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": fmt.Sprintf(
		`{"cniVersion": "0.3.1", "type": "sriov", "ipam": {"type": "whereabouts", "range": "192.168.%[1]s.0/24",
		  "routes": [{"dst": "192.168.0.0/16", "gw": "192.168.%[1]s.1"}]}}`, third)}}}
	network.SetGroupVersionKind(plan.NetworkKind)
	network.SetNamespace("default")
	network.SetName(name)
	network.SetAnnotations(map[string]string{plan.NetworkResource: resource})
	return network
}

// functionPolicy is a policy of the SR-IOV network operator for the functions of a port.
func functionPolicy(name, port string) *unstructured.Unstructured {
	policy := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"resourceName": name, "isRdma": true, "nicSelector": map[string]any{"pfNames": []any{port + "#0-3"}},
	}}}
	policy.SetGroupVersionKind(policyKind)
	policy.SetNamespace("sriov-network-operator")
	policy.SetName(name)
	return policy
}

// published are the eight ports of a machine, as DraNet publishes them, and the port of management.
func published(machineName string) *resourcev1.ResourceSlice {
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: machineName + "-dra.net"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: "dra.net", NodeName: &machineName, Pool: resourcev1.ResourcePool{Name: machineName, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range 9 {
		name, rdma := fmt.Sprintf("ens1%dnp0", 1+i), true
		if i == 8 {
			name, rdma = "eth0", false
		}
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"dra.net/ifName": {StringValue: &name}, "dra.net/rdma": {BoolValue: &rdma},
			},
		})
	}
	return slice
}

// discoverOn runs discover for gpu-a and gpu-b, two machines of the fixture, with more objects.
func discoverOn(t *testing.T, fixture string, objects []client.Object, args ...string) outcome {
	t.Helper()
	pods := &fakePods{answers: map[string][]any{}}
	for i, name := range []string{"gpu-a", "gpu-b"} {
		folder := filepath.Join(t.TempDir(), name)
		machinetest.Unpack(t, fixture, folder, byte(11+i))
		var text bytes.Buffer
		if err := machine.Print(&text, folder); err != nil {
			t.Fatal(err)
		}
		pods.answers["on-"+name+" logs machine"] = []any{text.String()}
	}
	on := podsOn(store(t, append(objects, operatorDeployment())...), corev1.PodSucceeded, nil)
	return runCommandOn(t, pods, on, nil, append([]string{"discover", "-n", "inference"}, args...)...)
}

// planned decodes each document of a manifest strictly, as the API server does, and plans its PeerCacheCluster.
func planned(t *testing.T, manifest string) *plan.Desired {
	t.Helper()
	var desired *plan.Desired
	for document := range strings.SplitSeq(manifest, "---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		var err error
		switch kind.Kind {
		case "PeerCacheCluster":
			c, parseErr := parseCluster([]byte(document))
			if parseErr != nil {
				t.Fatal(parseErr)
			}
			desired, err = plan.For(c, plan.Facts{DataplaneImage: "dataplane"})
		case "DeviceClass":
			err = yaml.UnmarshalStrict([]byte(document), &resourcev1.DeviceClass{})
		case "ResourceClaimTemplate":
			err = yaml.UnmarshalStrict([]byte(document), &resourcev1.ResourceClaimTemplate{})
		case "ConfigMap", "NetworkAttachmentDefinition":
		default:
			err = errors.New("nothing else is written")
		}
		if err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
	}
	return desired
}

func TestDiscoverAttachments(t *testing.T) {
	const rail0, rail1 = "nvidia.com/rail0", "nvidia.com/rail1"
	machines := []client.Object{offering("gpu-a", rail0, rail1), offering("gpu-b", rail0, rail1)}
	plain := []client.Object{offering("gpu-a"), offering("gpu-b")}
	with := func(objects []client.Object, more ...client.Object) []client.Object {
		return append(append([]client.Object{}, objects...), more...)
	}
	for file, test := range map[string]struct {
		fixture string
		objects []client.Object
		args    []string
		stderr  string
	}{
		"discover-sriov.yaml": {functions, with(machines,
			functionPolicy("rail0", "ens1f0np0"), functionPolicy("rail1", "ens2f0np0"),
			functionNetwork("fabric-a", rail0, "10"), functionNetwork("fabric-b", rail1, "11")), nil, ""},
		"discover-sriov-networks.yaml": {functions, with(machines,
			functionPolicy("rail0", "ens1f0np0"), functionPolicy("rail1", "ens2f0np0")), nil, ""},
		"discover-sriov-you.yaml": {functions, plain, []string{"--attachment", "SRIOV", "--networks", "you"},
			"fill in sriov.resourceName of rail0, rail1"},
		"discover-dra.yaml":    {eightPorts, with(plain, published("gpu-a"), published("gpu-b")), nil, ""},
		"discover-shared.yaml": {functions, machines, nil, ""},
	} {
		t.Run(file, func(t *testing.T) {
			got := discoverOn(t, test.fixture, test.objects, test.args...)
			if got.status != 0 || !strings.Contains(got.stderr, test.stderr) || test.stderr == "" && got.stderr != "" {
				t.Errorf("status %d, stderr %q, want %q", got.status, got.stderr, test.stderr)
			}
			golden(t, file, got.stdout)
			if desired := planned(t, got.stdout); desired == nil || len(desired.Groups) != 2 {
				t.Errorf("planned is %+v, want a group for each NUMA node", desired)
			}
		})
	}
}

// TestDiscoverWithLessRights: what may not be read is named in the manifest, and hinders nothing else.
func TestDiscoverWithLessRights(t *testing.T) {
	objects := interceptor.NewClient(machines(t, corev1.PodSucceeded, nil), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			switch list.(type) {
			case *resourcev1.ResourceSliceList, *unstructured.UnstructuredList:
				return apierrors.NewForbidden(schema.GroupResource{Resource: "these"}, "", errors.New("no"))
			}
			return c.List(ctx, list, o...)
		},
	})
	got := runCommandOn(t, described(t), objects, nil, "discover")
	for _, says := range []string{
		"# Check: ResourceSlices could not be read (these is forbidden: no).",
		"# Check: NetworkAttachmentDefinition could not be read", "# Check: SriovNetworkNodePolicy could not be read",
	} {
		if got.status != 0 || !strings.Contains(got.stdout, says) {
			t.Errorf("status %d, the manifest misses %q:\n%s%s", got.status, says, got.stdout, got.stderr)
		}
	}
}
