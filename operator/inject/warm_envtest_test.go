// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package inject_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/peercache/peercache/internal/ports"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/inject/webhooktest"
)

// requested collects the paths that a client asks the API server for.
type requested struct {
	http.RoundTripper

	mutex sync.Mutex
	paths map[string]bool
}

func (r *requested) RoundTrip(request *http.Request) (*http.Response, error) {
	r.mutex.Lock()
	r.paths[request.URL.Path] = true
	r.mutex.Unlock()
	return r.RoundTripper.RoundTrip(request)
}

func (r *requested) seen() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Sorted(maps.Keys(r.paths))
}

// TestAStandbyFillsItsCacheBeforeItIsReady runs a replica that never leads, and sends it no request.
func TestAStandbyFillsItsCacheBeforeItIsReady(t *testing.T) {
	namespace := testenv.Namespace(t)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "held"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("the leader"), LeaseDurationSeconds: new(int32(3600)),
			AcquireTime: new(metav1.NowMicro()), RenewTime: new(metav1.NowMicro())},
	}
	if err := testenv.Client(t).Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	options := webhooktest.Install(t)
	requests := &requested{paths: map[string]bool{}}
	config := testenv.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		requests.RoundTripper = next
		return requests
	})
	probes := freeAddress(t)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: testenv.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: probes,
		LeaderElection: true, LeaderElectionID: lease.Name, LeaderElectionNamespace: namespace, WebhookServer: webhooktest.ServerAt(options),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := inject.SetupWithManager(mgr, inject.Options{ClientImage: clientImage}); err != nil {
		t.Fatal(err)
	}
	if err := mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()); err != nil {
		t.Fatal(err)
	}
	webhooktest.Run(t, mgr)
	testenv.Eventually(t, func() error { return answers(t, "http://"+probes+"/readyz") })
	select {
	case <-mgr.Elected():
		t.Fatal("it leads")
	default:
	}
	paths := requests.seen()
	for _, want := range []string{
		"/apis/peercache.io/v1alpha1/peercacheclusters", "/api/v1/limitranges", "/api/v1/resourcequotas", "/api/v1/namespaces",
		"/apis/storage.k8s.io/v1/csidrivers", "/apis/storage.k8s.io/v1/csinodes",
	} {
		if !slices.Contains(paths, want) {
			t.Errorf("it is ready, and has asked for %q, not for %s", paths, want)
		}
	}
}

func answers(t *testing.T, url string) error {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := ports.Address(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return address
}
