// SPDX-License-Identifier: Apache-2.0

// Command peercache-operator runs PeerCacheClusters: it keeps their nodes as specified (package reconcile)
// and connects SGLang pods to them (package inject, a webhook). `peercache-operator --help` lists the flags. `peercache-operator machine`
// describes the machine that it runs on (package machine).
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/certs"
	"github.com/peercache/peercache/operator/fleet"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/machine"
	"github.com/peercache/peercache/operator/plan"
	"github.com/peercache/peercache/operator/reconcile"
	"github.com/peercache/peercache/operator/tracing"
	"github.com/peercache/peercache/operator/watchdog"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=peercache-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="";events.k8s.io,namespace=peercache-system,resources=events,verbs=create;patch

// version is set by the linker: -ldflags "-X main.version=$(cat VERSION)".
var version = "0.0.0-unreleased"

// machineCommand describes this machine's RDMA ports instead of running the operator. `kubectl peercache discover` runs it in a
// pod on each machine.
const machineCommand = "machine"

func main() {
	if slices.Equal(os.Args[1:], []string{machineCommand}) {
		if err := machine.Print(os.Stdout, "/"); err != nil {
			fmt.Fprintln(os.Stderr, "peercache-operator:", err)
			os.Exit(1)
		}
		return
	}
	config, err := parseFlags(os.Args[1:], os.Getenv, os.Stderr)
	switch {
	case errors.Is(err, errHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "peercache-operator:", err)
		os.Exit(2)
	case config.showVersion:
		fmt.Println("peercache-operator", version)
		return
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&config.log)))
	kubeconfig, err := ctrl.GetConfig()
	if err != nil {
		ctrl.Log.Error(err, "the API server is unknown: run in a pod, or set KUBECONFIG")
		os.Exit(1)
	}
	if err := run(ctrl.SetupSignalHandler(), kubeconfig, config); err != nil {
		ctrl.Log.Error(err, "peercache-operator stops")
		os.Exit(1)
	}
}

// run works until the context ends, on SIGTERM or SIGINT.
func run(ctx context.Context, kubeconfig *rest.Config, config options) error {
	ctrl.Log.Info("starting", "version", version, "dataplaneImage", config.dataplaneImage,
		"clientImage", config.clientImage, "webhook", config.webhook, "watchNamespaces", config.watchNamespaces)
	traces, err := tracing.Start(config.tracing, version)
	if err != nil {
		return err
	}
	defer traces.Stop()
	if config.tracing != "" {
		kubeconfig = rest.CopyConfig(kubeconfig)
		kubeconfig.Wrap(tracing.Requests)
	}
	served, err := webhookCertificate(config)
	if err != nil {
		return err
	}
	if err := config.askers.Check(); err != nil {
		return fmt.Errorf("--webhook-client-ca: %w", err)
	}
	mgr, err := ctrl.NewManager(kubeconfig, managerOptions(config, served))
	if err != nil {
		return fmt.Errorf("setting up the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("alive", healthz.Ping); err != nil {
		return fmt.Errorf("adding the health check: %w", err)
	}
	facts := plan.Facts{DataplaneImage: config.dataplaneImage, PodsUnpatched: !config.patchPods, Runbooks: config.runbooks}
	reconciler := &reconcile.Reconciler{
		Client:          mgr.GetClient(),
		Live:            mgr.GetAPIReader(),
		Events:          mgr.GetEventRecorder("peercache-operator"),
		Fleet:           fleet.NewClient(),
		Facts:           facts,
		WebhookDisabled: config.webhook == webhookDisabled,
		Now:             time.Now,
		Tracer:          traces.Tracer(),
	}
	injection := inject.Options{ClientImage: config.clientImage, Plan: facts, Namespaces: config.watchNamespaces, Askers: config.askers}
	reconciler.Injection = injection
	// The watchdog also runs without the webhook, because admission policies connect pods as well.
	if reconciler.Watchdog, err = watchdog.New(mgr, injection); err != nil {
		return err
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return err
	}
	if config.webhook == webhookEnabled {
		if err := served.Setup(ctx, mgr); err != nil {
			return err
		}
		if err := inject.SetupWithManager(mgr, injection); err != nil {
			return err
		}
		if err := mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()); err != nil {
			return fmt.Errorf("adding the readiness check: %w", err)
		}
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}

// certificate is the certificate of the webhook.
type certificate interface {
	// Setup registers what makes the certificate, or reads it again when it changes.
	Setup(ctx context.Context, mgr ctrl.Manager) error
	ConfigureTLS(config *tls.Config)
}

func webhookCertificate(config options) (certificate, error) {
	if config.certificates == "" {
		return certs.NewKeeper(config.namespace), nil
	}
	given, err := certs.NewGiven(config.certificates)
	if err != nil {
		return nil, fmt.Errorf("--webhook-certificates: %w", err)
	}
	return given, nil
}

func managerOptions(config options, served certificate) manager.Options {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	cached := reconcile.CacheByObject()
	server := webhook.Options{Port: config.webhookPort, TLSOpts: []func(*tls.Config){served.ConfigureTLS, config.askers.ConfigureTLS}}
	if config.keepsCertificate() {
		object, scope := certs.CacheByObject(config.namespace)
		cached[object] = scope
	}
	if len(config.watchNamespaces) > 0 {
		// Such an operator may read no other webhook configuration.
		cached[&admissionv1.MutatingWebhookConfiguration{}] = cache.ByObject{
			Field: fields.OneTermEqualSelector("metadata.name", certs.ConfigurationName),
		}
	}
	metrics := metricsserver.Options{BindAddress: config.metricsAddress}
	if config.metricsTLS {
		metrics.SecureServing, metrics.TLSOpts = true, []func(*tls.Config){served.ConfigureTLS}
	}
	return manager.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultNamespaces: inject.CacheNamespaces(config.watchNamespaces),
			ByObject:          cached,
			DefaultTransform:  cache.TransformStripManagedFields(),
		},
		Metrics:                 metrics,
		HealthProbeBindAddress:  config.probeAddress,
		WebhookServer:           webhook.NewServer(server),
		LeaderElection:          config.leaderElect,
		LeaderElectionID:        "peercache-operator",
		LeaderElectionNamespace: config.namespace,
		// The process exits after the manager, so another replica may take over at once.
		LeaderElectionReleaseOnCancel: true,
	}
}
