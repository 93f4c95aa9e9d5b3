// SPDX-License-Identifier: Apache-2.0

//go:build envtest

// Package webhooktest serves the real webhook, as config/webhook registers it, to the API server of package testenv.
package webhooktest

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"strconv"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/internal/ports"
	"github.com/peercache/peercache/internal/testenv"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/plan"
)

// Install registers config/webhook with the API server, and returns where the API server calls it.
func Install(t *testing.T) *envtest.WebhookInstallOptions {
	t.Helper()
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	text, err := os.ReadFile(testenv.File(t, "config/webhook/webhook.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, configuration); err != nil {
		t.Fatal(err)
	}
	return InstallThese(t, configuration)
}

// InstallThese registers webhooks with the API server until the test ends.
func InstallThese(t *testing.T, configurations ...*admissionregistrationv1.MutatingWebhookConfiguration) *envtest.WebhookInstallOptions {
	t.Helper()
	port, err := ports.Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	options := &envtest.WebhookInstallOptions{
		MutatingWebhooks: configurations, LocalServingHost: "127.0.0.1", LocalServingPort: port,
	}
	if err := options.Install(testenv.Config()); err != nil {
		t.Fatalf("installing the webhook configuration: %v", err)
	}
	t.Cleanup(func() {
		for _, configuration := range configurations {
			// The context of the test has ended by now.
			if err := testenv.Client(t).Delete(context.WithoutCancel(t.Context()), configuration); err != nil {
				t.Errorf("removing the webhook configuration: %v", err)
			}
		}
		if err := options.Cleanup(); err != nil {
			t.Errorf("removing the webhook's certificate: %v", err)
		}
	})
	return options
}

// Serve runs the webhook until the test ends.
func Serve(t *testing.T, clientImage string) {
	t.Helper()
	ServeTo(t, clientImage, inject.Askers{})
}

// ServeTo is Serve for some askers. It returns where the API server calls.
func ServeTo(t *testing.T, clientImage string, askers inject.Askers) (url string) {
	t.Helper()
	options := Install(t)
	mgr, err := ctrl.NewManager(testenv.Config(), ctrl.Options{
		Scheme:        testenv.Scheme(),
		Metrics:       metricsserver.Options{BindAddress: "0"},
		WebhookServer: ServerAt(options, askers.ConfigureTLS),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := inject.SetupWithManager(recorderless{mgr}, inject.Options{
		ClientImage: clientImage,
		Plan:        plan.Facts{DataplaneImage: "dataplane:test"},
		Askers:      askers,
	}); err != nil {
		t.Fatal(err)
	}
	Run(t, mgr)
	testenv.Eventually(t, func() error {
		return mgr.GetWebhookServer().StartedChecker()(nil)
	})
	return "https://" + net.JoinHostPort(options.LocalServingHost, strconv.Itoa(options.LocalServingPort)) + inject.Path
}

// recorderless gives no recorder of events: others than the API server may ask the webhook, so it writes nothing.
type recorderless struct{ ctrl.Manager }

func (recorderless) GetEventRecorder(string) events.EventRecorder { return nil }

// ServerAt is a server where the API server calls.
func ServerAt(options *envtest.WebhookInstallOptions, configure ...func(*tls.Config)) webhook.Server {
	return webhook.NewServer(webhook.Options{
		Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir, TLSOpts: configure,
	})
}

// Run runs a manager until the test ends.
func Run(t *testing.T, mgr ctrl.Manager) {
	t.Helper()
	stopped := make(chan error, 1)
	ctx := t.Context()
	go func() { stopped <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		if err := <-stopped; err != nil {
			t.Errorf("the manager: %v", err)
		}
	})
}
