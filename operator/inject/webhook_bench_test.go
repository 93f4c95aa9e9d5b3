// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject/injecttest"
)

// BenchmarkAdmission measures an admission without TLS and HTTP: from the request as the API server sends it to the bytes
// of the answer. The pod is the leader of a LeaderWorkerSet with a router and an exporter. The operator logs as in a
// cluster.
//
//	go test ./operator/inject -run '^$' -bench Admission -benchmem
func BenchmarkAdmission(b *testing.B) {
	for _, mode := range []struct {
		name    string
		changes []func(*v1alpha1.PeerCacheClusterSpec)
	}{
		{"node", nil},
		{"sidecar", []func(*v1alpha1.PeerCacheClusterSpec){sidecar}},
		{"sidecar-rdma", []func(*v1alpha1.PeerCacheClusterSpec){sidecar, sharedRails}},
	} {
		b.Run(mode.name, func(b *testing.B) {
			served := benchWebhook(clusterWith("serving", mode.changes...))
			body := benchReview(b)
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				request := httptest.NewRequestWithContext(b.Context(), http.MethodPost, Path, bytes.NewReader(body))
				request.Header.Set("Content-Type", "application/json")
				answer := httptest.NewRecorder()
				served.ServeHTTP(answer, request)
				if !bytes.Contains(answer.Body.Bytes(), []byte(`"patch"`)) {
					b.Fatalf("the pod is not connected: %s", answer.Body)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

// cpuTime is the CPU time of this process, garbage collection included. Unlike elapsed time, it does not depend on
// other load.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func benchWebhook(cluster *v1alpha1.PeerCacheCluster) http.Handler {
	ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard), zap.Level(zapcore.InfoLevel), zap.JSONEncoder()))
	return &admission.Webhook{Handler: &handler{
		options: testOptions, cached: copyingReader{cluster},
	}}
}

// copyingReader returns a copy of the cluster, as the manager's cache does.
type copyingReader struct{ cluster *v1alpha1.PeerCacheCluster }

func (c copyingReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if _, namespace := into.(*metav1.PartialObjectMetadata); namespace && key.Namespace == "" {
		return nil
	}
	cluster, ok := into.(*v1alpha1.PeerCacheCluster)
	if !ok || key != client.ObjectKeyFromObject(c.cluster) {
		return fmt.Errorf("nobody has %T %s", into, key)
	}
	c.cluster.DeepCopyInto(cluster)
	return nil
}

// List finds neither LimitRanges nor ResourceQuotas.
func (c copyingReader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list.(type) {
	case *corev1.LimitRangeList, *corev1.ResourceQuotaList:
		return nil
	}
	return fmt.Errorf("an admission lists %T", list)
}

func benchReview(b *testing.B) []byte {
	b.Helper()
	pod := injecttest.ReadPod(b, "testdata/leader-with-sidecars.out.yaml")
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	raw, err := json.Marshal(pod)
	if err != nil {
		b.Fatal(err)
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "4a4f6c1e-9a7d-4d0c-8f6b-2f1a53d4c0de", Name: pod.Name, Namespace: "serving",
			Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	return body
}
