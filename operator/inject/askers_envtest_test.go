// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package inject_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/webhooktest"
)

// TestForgedReviews: whoever reaches the webhook's port, and is not the API server, is not answered where askers are chosen. Pods
// of the API server are connected.
func TestForgedReviews(t *testing.T) {
	url := webhooktest.ServeTo(t, clientImage, inject.Askers{CA: testenv.WebhookClients.File, Names: []string{testenv.WebhookClient}})
	c, namespace := testenv.Client(t), newServing(t, nil)
	pod := newEngine(namespace)
	create(t, c, pod)
	if pod.Annotations[names.AnnotationInjected] != "kv" {
		t.Errorf("the API server's own pod is not connected: %v", pod.Annotations)
	}
	foreign, err := testenv.NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		authority *testenv.Authority
		asker     string
		status    int
		says      string
	}{
		"no certificate":              {nil, "", http.StatusForbidden, "shows no certificate"},
		"a certificate of another CA": {foreign, testenv.WebhookClient, http.StatusForbidden, "not one of --webhook-client-ca"},
		"another client of that CA":   {testenv.WebhookClients, "system:node:a", http.StatusForbidden, `is of "system:node:a"`},
		"as the API server asks":      {testenv.WebhookClients, testenv.WebhookClient, http.StatusOK, `"allowed":true`},
	} {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{InsecureSkipVerify: true}
			if test.authority != nil {
				shown, err := test.authority.Issue(test.asker)
				if err != nil {
					t.Fatal(err)
				}
				config.Certificates = []tls.Certificate{shown}
			}
			if status, text := forge(t, url, config, newEngine(namespace)); status != test.status || !strings.Contains(text, test.says) {
				t.Errorf("status %d, %s; want %d, %q", status, text, test.status, test.says)
			}
		})
	}
}

// TestForgedReviewsLeaveNothing: a review of a pod that nobody creates is answered without a value of podTemplate, and without a
// recorder of events.
func TestForgedReviewsLeaveNothing(t *testing.T) {
	url := webhooktest.ServeTo(t, clientImage, inject.Askers{})
	spec := v1alpha1.PeerCacheClusterSpec{PodTemplate: &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(
		`{"containers": [{"name": "peercached", "env": [{"name": "X", "value": "hunter2"}]}]}`)}}}
	spec.Injection.Mode = v1alpha1.InjectionSidecar
	namespace := newServingAs(t, spec)
	noEngine := newEngine(namespace)
	noEngine.Spec.Containers[0].Args = nil
	for _, pod := range []*corev1.Pod{noEngine, newEngine(namespace)} {
		status, text := forge(t, url, &tls.Config{InsecureSkipVerify: true}, pod)
		if status != http.StatusOK || !strings.Contains(text, `"allowed":true`) || strings.Contains(text, "hunter2") {
			t.Errorf("status %d, %s", status, text)
		}
	}
}

// forge sends a review as the API server would, of a pod that nobody creates.
func forge(t *testing.T, url string, config *tls.Config, pod *corev1.Pod) (status int, answer string) {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	review := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "1", Namespace: pod.Namespace, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
	}}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &review); err == nil && review.Response != nil {
		text = append(text, review.Response.Patch...) // which is in base64 there
	}
	return response.StatusCode, string(text)
}
