// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/tracing"
)

const (
	webhookEnabled  = "enabled"
	webhookDisabled = "disabled"

	// namespaceFile has the namespace of a pod.
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// errHelp is returned after the help was printed.
var errHelp = flag.ErrHelp

// options are the settings from the command line and the environment.
type options struct {
	dataplaneImage string
	clientImage    string
	namespace      string
	leaderElect    bool
	metricsAddress string
	metricsTLS     bool
	probeAddress   string
	webhookPort    int
	webhook        string
	certificates   string
	askers         inject.Askers
	tracing        string
	runbooks       string
	// watchNamespaces are the only namespaces in which the operator works; none means all.
	watchNamespaces []string
	// patchPods says that the operator may patch pods.
	patchPods   bool
	showVersion bool
	log         zap.Options
}

// parseFlags reads the command line. The environment may give the images; a flag overrides it.
func parseFlags(args []string, getenv func(string) string, output io.Writer) (options, error) {
	var o options
	set := flag.NewFlagSet("peercache-operator", flag.ContinueOnError)
	set.SetOutput(output)
	set.Usage = func() {
		_, _ = fmt.Fprintf(output, "peercache-operator %s runs PeerCacheClusters on Kubernetes.\n"+
			"With the one argument %s it prints what RDMA ports this machine has, as JSON.\n\nFlags:\n", version, machineCommand)
		set.PrintDefaults()
	}
	image := func(name, env, fallback, usage string) *string {
		value := getenv(env)
		if value == "" {
			value = fallback
		}
		return set.String(name, value, usage+" (environment: "+env+")")
	}
	dataplane := image("dataplane-image", "PEERCACHE_DATAPLANE_IMAGE",
		"ghcr.io/peercache/peercache/dataplane:"+version, "`image` of nodes whose cluster names none")
	client := image("client-image", "PEERCACHE_CLIENT_IMAGE",
		"ghcr.io/peercache/peercache/client:"+version, "`image` of the client package where the cluster names none")
	set.StringVar(&o.namespace, "namespace", getenv("POD_NAMESPACE"),
		"the operator's own `namespace`; in a pod it is known (environment: POD_NAMESPACE)")
	set.BoolVar(&o.leaderElect, "leader-elect", false, "let only one of several replicas reconcile at a time")
	set.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "`address` of /metrics, 0 for none")
	set.BoolVar(&o.metricsTLS, "metrics-tls", false, "serve /metrics by HTTPS, with the certificate of the webhook")
	set.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz")
	set.IntVar(&o.webhookPort, "webhook-port", 9443, "`port` of the webhook that connects SGLang pods")
	set.StringVar(&o.webhook, "webhook", webhookEnabled, "run the webhook: enabled or disabled")
	set.StringVar(&o.certificates, "webhook-certificates", "", "`folder` with tls.crt and tls.key for the webhook, which another "+
		"program such as OLM makes, renews and lets the API server trust; empty: the operator does this itself")
	set.StringVar(&o.askers.CA, "webhook-client-ca", "", "`file` with the CA of the certificate that the API server shows to "+
		"webhooks: a caller without one is refused; empty: the webhook answers any caller that reaches its port")
	clients := set.String("webhook-client-names", "", "comma-separated common `names`, one of which the certificate of "+
		"--webhook-client-ca has; empty: any")
	set.StringVar(&o.tracing, "tracing-endpoint", "", "`address` of an OpenTelemetry collector that takes OTLP over HTTP, such as "+
		"http://collector:4318, for spans of the operator; empty: the operator sends none")
	set.StringVar(&o.runbooks, "runbooks", runbooksOf(version), "`address` of the folder with the pages to which alerts link")
	watched := set.String("watch-namespaces", "", "comma-separated `namespaces` in which the operator works, with permissions there only; "+
		"empty: in all")
	set.BoolVar(&o.patchPods, "patch-pods", true, "patch pods, to label discovery hosts and for update.strategy InPlace; false: "+
		"without the right to patch pods; every member hosts discovery, and InPlace replaces pods")
	set.BoolVar(&o.showVersion, "version", false, "print the version and exit")
	o.log.BindFlags(set)
	if err := set.Parse(args); err != nil {
		return o, err
	}
	o.dataplaneImage, o.clientImage = *dataplane, *client
	if *watched != "" {
		o.watchNamespaces = strings.Split(*watched, ",")
	}
	if *clients != "" {
		o.askers.Names = strings.Split(*clients, ",")
	}
	if o.namespace == "" {
		o.namespace = namespaceOfPod()
	}
	return o, o.validate(set.Args())
}

// runbooksOf returns the address of the runbooks of a release, and of the newest ones for an operator that is of no release.
func runbooksOf(version string) string {
	tag := "v" + version
	if strings.HasSuffix(version, "-unreleased") {
		tag = "main"
	}
	return "https://github.com/peercache/peercache/blob/" + tag + "/docs/runbooks"
}

// keepsCertificate is true where the operator makes the webhook's certificate itself.
func (o options) keepsCertificate() bool { return o.webhook == webhookEnabled && o.certificates == "" }

func (o options) validate(rest []string) error {
	switch {
	case o.showVersion:
		return nil
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q: write flags as --name=value, see --help", rest[0])
	case o.webhook != webhookEnabled && o.webhook != webhookDisabled:
		return fmt.Errorf("--webhook=%s is unknown: write enabled or disabled", o.webhook)
	case o.webhook == webhookDisabled && o.certificates != "":
		return fmt.Errorf("--webhook-certificates=%s has no effect with --webhook=disabled: leave one of them out", o.certificates)
	case o.webhook == webhookDisabled && o.metricsTLS:
		return errors.New("--metrics-tls needs the certificate of the webhook, which --webhook=disabled turns off: leave one of them out")
	case o.webhook == webhookDisabled && o.askers.CA != "":
		return fmt.Errorf("--webhook-client-ca=%s has no effect with --webhook=disabled: leave one of them out", o.askers.CA)
	case o.askers.CA == "" && len(o.askers.Names) > 0:
		return fmt.Errorf("--webhook-client-names=%s has no effect without --webhook-client-ca: add that, or leave it out",
			strings.Join(o.askers.Names, ","))
	case o.webhookPort < 1 || o.webhookPort > 65535:
		return fmt.Errorf("--webhook-port=%d is not a port: write a number from 1 to 65535", o.webhookPort)
	case o.namespace == "" && (o.webhook == webhookEnabled || o.leaderElect):
		return errors.New("the operator's namespace is unknown outside a pod: write --namespace=peercache-system")
	}
	for i, namespace := range o.watchNamespaces {
		if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 || slices.Contains(o.watchNamespaces[:i], namespace) {
			return fmt.Errorf("--watch-namespaces=%s has %q, which is twice there or no name of a namespace: "+
				"write names with commas between them, such as team-a,team-b", strings.Join(o.watchNamespaces, ","), namespace)
		}
	}
	if address, err := url.Parse(o.runbooks); err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" {
		return fmt.Errorf("--runbooks=%s is not an address of pages: write for example %s", o.runbooks, runbooksOf(version))
	}
	if err := tracing.Check(o.tracing); err != nil {
		return fmt.Errorf("--tracing-endpoint=%s %w", o.tracing, err)
	}
	return nil
}

func namespaceOfPod() string {
	content, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "" // the process is not in a pod
	}
	return strings.TrimSpace(string(content))
}
