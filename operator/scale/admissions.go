// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/certs"
	"github.com/peercache/peercache/operator/inject"
)

// admissions is a load on the webhook. Each request is sent at its scheduled time, whether or not earlier ones were answered. A
// latency counts from that time, so a stall of the webhook does not reduce the load.
type admissions struct {
	client *http.Client
	url    string
	bodies [][]byte // one AdmissionReview each, sent in rotation
}

// answers are the counts and latencies of the answers.
type answers struct {
	asked, failed, patched int
	latencies              []time.Duration // sorted
	late                   []time.Duration // sorted delays of sending, caused by this machine
	lastFailure            error
}

// quantile returns a quantile of sorted durations in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := min(int(q*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[at].Microseconds()) / 1000
}

// newAdmissions trusts the CA in the webhook configuration, as the API server does. The pods are those of the golden tests of
// injection, with the label of the cluster.
func newAdmissions(ctx context.Context, c config, reader client.Reader, port int) (*admissions, error) {
	webhook := &registrationv1.MutatingWebhookConfiguration{}
	if err := reader.Get(ctx, client.ObjectKey{Name: certs.ConfigurationName}, webhook); err != nil {
		return nil, fmt.Errorf("reading the webhook's CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(webhook.Webhooks[0].ClientConfig.CABundle) {
		return nil, errors.New("the webhook configuration holds no CA")
	}
	a := &admissions{
		url: fmt.Sprintf("https://127.0.0.1:%d%s?timeout=5s", port, inject.Path),
		client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
			ForceAttemptHTTP2: true, // as the API server does
			TLSClientConfig: &tls.Config{
				MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: certs.ServiceName + "." + systemNamespace + ".svc"},
		}},
	}
	files, err := filepath.Glob(filepath.Join(c.root, "operator", "inject", "testdata", "*.out.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no pods in operator/inject/testdata below --root=%s (error %w)", c.root, err)
	}
	for i, file := range files {
		body, err := reviewOf(file, i)
		if err != nil {
			return nil, err
		}
		a.bodies = append(a.bodies, body)
	}
	return a, nil
}

func reviewOf(file string, i int) ([]byte, error) {
	text, err := os.ReadFile(file) //nolint:gosec // a file of the repository
	if err != nil {
		return nil, fmt.Errorf("reading a pod: %w", err)
	}
	var injection struct {
		Pod *corev1.Pod `json:"pod"`
	}
	if err := yaml.Unmarshal(text, &injection); err != nil || injection.Pod == nil {
		return nil, fmt.Errorf("reading the pod of %s: %w", file, err)
	}
	pod := injection.Pod
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.Namespace, pod.Labels[v1alpha1.LabelInject] = servingNamespace, clusterName
	delete(pod.Annotations, v1alpha1.AnnotationClusterNamespace)
	raw, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", file, err)
	}
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)), Name: pod.Name, Namespace: servingNamespace,
			Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
		},
	})
}

// ask sends rate requests per second for a while.
func (a *admissions) ask(ctx context.Context, rate int, during time.Duration) answers {
	var mu sync.Mutex
	var wait sync.WaitGroup
	var found answers
	count := int(during.Seconds() * float64(rate))
	slots := make(chan struct{}, rate) // at most the requests of one second
	start := time.Now()
	for i := range count {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if pause(ctx, time.Until(due)) != nil {
			break
		}
		slots <- struct{}{}
		wait.Go(func() {
			late := time.Since(due)
			patched, err := a.request(ctx, a.bodies[i%len(a.bodies)])
			took := time.Since(due)
			<-slots
			mu.Lock()
			defer mu.Unlock()
			found.asked++
			found.latencies, found.late = append(found.latencies, took), append(found.late, late)
			if err != nil {
				found.failed++
				found.lastFailure = err
			}
			if patched {
				found.patched++
			}
		})
	}
	wait.Wait()
	slices.Sort(found.latencies)
	slices.Sort(found.late)
	return found
}

// request sends one request, and returns whether the answer changes the pod.
func (a *admissions) request(ctx context.Context, body []byte) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := a.client.Do(request)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return false, err
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(content, &review); err != nil {
		return false, fmt.Errorf("the webhook answers %s: %w", response.Status, err)
	}
	if review.Response == nil || !review.Response.Allowed {
		return false, fmt.Errorf("the webhook answers %s without admitting the pod", response.Status)
	}
	return len(review.Response.Patch) > 0, nil
}
