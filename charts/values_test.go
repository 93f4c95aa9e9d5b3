// SPDX-License-Identifier: Apache-2.0

//go:build render

package charts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

func TestLint(t *testing.T) {
	for name, values := range map[string]string{
		"default": "replicas=2", "everything": "replicas=3,networkPolicy.enabled=true,webhook.certManager.enabled=true,metrics.podMonitors.enabled=true,metrics.rules.enabled=true,metrics.dashboards.enabled=true,logLevel=debug,csi.enabled=true,rbac.admissionPolicies.enabled=true,rbac.missedPods.enabled=true,rbac.networks.enabled=true,rbac.monitoring.enabled=true",
		"nothing": "webhook.enabled=false,crds.install=false,rbac.aggregate=false",
	} {
		stdout, stderr, err := run(t.Context(), program(t, "HELM", "helm"), "lint", "--strict", "peercache",
			"--kube-version", kubeVersion, "--set", values)
		if err != nil {
			t.Errorf("%s: %v: %s%s", name, err, stdout, stderr)
		}
	}
}

func TestDefaults(t *testing.T) {
	all := helmTemplate(t)
	for _, kind := range []string{"PodMonitor", "ServiceMonitor", "PrometheusRule", "PeerCacheCluster", "Secret", "Namespace", "CSIDriver", "DaemonSet", "NetworkPolicy"} {
		if all.has(kind) {
			t.Errorf("a %s is rendered", kind)
		}
	}
	_, pod := operatorContainer(t, all)
	if replicas, _, _ := unstructured.NestedInt64(all.get(t, "Deployment", "peercache-operator").Object, "spec", "replicas"); replicas != 2 {
		t.Errorf("%d operators run", replicas)
	}
	spread := pod["topologySpreadConstraints"].([]any)[0].(map[string]any)
	if spread["topologyKey"] != "kubernetes.io/hostname" || spread["whenUnsatisfiable"] != "ScheduleAnyway" {
		t.Errorf("operators are spread by %v", spread)
	}
	// A selector that selects no operator would neither spread nor keep any.
	for what, selector := range map[string]any{
		"spread": spread["labelSelector"], "kept": all.get(t, "PodDisruptionBudget", "peercache-operator").Object["spec"].(map[string]any)["selector"],
	} {
		want := all.get(t, "Deployment", "peercache-operator").Object["spec"].(map[string]any)["selector"]
		if !equality.Semantic.DeepEqual(selector, want) {
			t.Errorf("pods that are %s are chosen by %v, the operator's by %v", what, selector, want)
		}
	}
	crd := all.get(t, "CustomResourceDefinition", "peercacheclusters.peercache.io")
	if crd.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
		t.Errorf("the definition would go with the release: %v", crd.GetAnnotations())
	}
	// Helm compares old and new manifests, so what is in neither is left to the operator.
	for _, webhook := range list(t, all.get(t, "MutatingWebhookConfiguration", "peercache-inject"), "webhooks") {
		config, _ := webhook["clientConfig"].(map[string]any)
		if _, ok := config["caBundle"]; ok {
			t.Error("an upgrade would overwrite caBundle")
		}
	}
	for key, object := range all {
		if key.namespace != "" && key.namespace != namespace {
			t.Errorf("%v is outside the release's namespace", key)
		}
		if object.GetLabels()["app.kubernetes.io/name"] != "peercache" {
			t.Errorf("%v has labels %v", key, object.GetLabels())
		}
	}
}

// TestReleaseNamespace: nothing names the default namespace in a release elsewhere.
func TestReleaseNamespace(t *testing.T) {
	stdout, stderr, err := run(t.Context(), program(t, "HELM", "helm"), "template", "x", "peercache", "--namespace", "elsewhere",
		"--kube-version", kubeVersion, "--set", "metrics.podMonitors.enabled=true,metrics.rules.enabled=true,csi.enabled=true,networkPolicy.enabled=true,metrics.serviceMonitor.enabled=true,webhook.certManager.enabled=true")
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if strings.Contains(stdout, namespace) {
		t.Errorf("%s appears in a release in another namespace", namespace)
	}
}

func TestValues(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	cases := []struct {
		name   string
		values []string
		check  func(t *testing.T, all objects)
	}{
		{"images", []string{
			"image.repository=registry.test/op", "image.tag=1.2.3", "image.pullPolicy=Always",
			"dataplane.image.repository=registry.test/dp", "dataplane.image.tag=" + digest, "client.image.tag=v9",
			"imagePullSecrets[0].name=creds",
		}, func(t *testing.T, all objects) {
			container, pod := operatorContainer(t, all)
			wantArgs(t, container, "--dataplane-image=registry.test/dp@"+digest, "--client-image=ghcr.io/peercache/peercache/client:v9")
			if container["image"] != "registry.test/op:1.2.3" || container["imagePullPolicy"] != "Always" {
				t.Errorf("image %v, policy %v", container["image"], container["imagePullPolicy"])
			}
			if len(pod["imagePullSecrets"].([]any)) != 1 {
				t.Errorf("imagePullSecrets %v", pod["imagePullSecrets"])
			}
		}},
		{"replicas", []string{"replicas=3"}, func(t *testing.T, all objects) {
			all.get(t, "PodDisruptionBudget", "peercache-operator")
			container, _ := operatorContainer(t, all)
			wantArgs(t, container, "--leader-elect")
		}},
		{"an API server that reaches no pod", []string{"hostNetwork=true"}, func(t *testing.T, all objects) {
			_, pod := operatorContainer(t, all)
			if pod["hostNetwork"] != true || pod["dnsPolicy"] != "ClusterFirstWithHostNet" {
				t.Errorf("the pod is %v", pod)
			}
			spec := all.get(t, "Deployment", "peercache-operator").Object["spec"].(map[string]any)
			if !strings.Contains(fmt.Sprint(spec["strategy"]), "maxSurge:0") {
				t.Errorf("an update waits for ports: %v", spec["strategy"])
			}
		}},
		{"no disruption budget", []string{"replicas=3", "podDisruptionBudget.enabled=false"}, func(t *testing.T, all objects) {
			if all.has("PodDisruptionBudget") {
				t.Error("a PodDisruptionBudget is rendered")
			}
		}},
		{"a single operator, whose machine may be drained", []string{"replicas=1"}, func(t *testing.T, all objects) {
			if all.has("PodDisruptionBudget") {
				t.Error("a PodDisruptionBudget is rendered")
			}
		}},
		{"no CRD", []string{"crds.install=false"}, func(t *testing.T, all objects) {
			if all.has("CustomResourceDefinition") {
				t.Error("a CustomResourceDefinition is rendered")
			}
		}},
		{"CRD goes with the release", []string{"crds.keep=false"}, func(t *testing.T, all objects) {
			crd := all.get(t, "CustomResourceDefinition", "peercacheclusters.peercache.io")
			if _, ok := crd.GetAnnotations()["helm.sh/resource-policy"]; ok {
				t.Errorf("annotations %v", crd.GetAnnotations())
			}
		}},
		{"no webhook", []string{"webhook.enabled=false"}, func(t *testing.T, all objects) {
			if all.has("MutatingWebhookConfiguration") || all.has("Service") {
				t.Error("parts of the webhook are rendered")
			}
			container, _ := operatorContainer(t, all)
			wantArgs(t, container, "--webhook=disabled")
		}},
		{"a certificate by cert-manager", []string{"webhook.certManager.enabled=true"}, func(t *testing.T, all objects) {
			// What is signed by what: from the Certificate that is served up to the CA, which the namespace holds.
			served := all.get(t, "Certificate", "peercache-webhook")
			if fmt.Sprint(served.Object["spec"].(map[string]any)["dnsNames"]) != "[peercache-webhook."+namespace+".svc]" {
				t.Errorf("it is for %v", served.Object["spec"])
			}
			issuer := all.get(t, "Issuer", text(t, served, "spec", "issuerRef", "name"))
			root := all.get(t, "Certificate", "peercache-webhook-root")
			if text(t, issuer, "spec", "ca", "secretName") != text(t, root, "spec", "secretName") {
				t.Errorf("%v signs by another CA than %v", issuer.Object["spec"], root.Object["spec"])
			}
			all.get(t, "Issuer", text(t, root, "spec", "issuerRef", "name"))

			container, pod := operatorContainer(t, all)
			wantArgs(t, container, "--webhook-certificates=/etc/peercache/webhook")
			mount := container["volumeMounts"].([]any)[1].(map[string]any)
			volume := pod["volumes"].([]any)[1].(map[string]any)
			if mount["mountPath"] != "/etc/peercache/webhook" || mount["name"] != volume["name"] ||
				volume["secret"].(map[string]any)["secretName"] != text(t, served, "spec", "secretName") {
				t.Errorf("mounts %v of %v", mount, volume)
			}
			configuration := all.get(t, "MutatingWebhookConfiguration", "peercache-inject")
			if from := configuration.GetAnnotations()["cert-manager.io/inject-ca-from"]; from != namespace+"/"+served.GetName() {
				t.Errorf("the CA is taken from %q", from)
			}
		}},
		{"a certificate by an issuer that there is", []string{
			"webhook.certManager.enabled=true", "webhook.certManager.issuerRef.kind=ClusterIssuer", "webhook.certManager.issuerRef.name=ours",
		}, func(t *testing.T, all objects) {
			if all.has("Issuer") {
				t.Error("an Issuer is rendered")
			}
			issuer, _, _ := unstructured.NestedStringMap(all.get(t, "Certificate", "peercache-webhook").Object, "spec", "issuerRef")
			if issuer["group"] != "cert-manager.io" || issuer["kind"] != "ClusterIssuer" || issuer["name"] != "ours" {
				t.Errorf("signed by %v", issuer)
			}
		}},
		{"certificates of who may ask the webhook", []string{
			"webhook.clientCA.configMapName=askers", "webhook.clientCA.commonNames={a,b}",
		}, func(t *testing.T, all objects) {
			container, pod := operatorContainer(t, all)
			wantArgs(t, container, "--webhook-client-ca=/etc/peercache/clients/ca.crt", "--webhook-client-names=a,b")
			mount := container["volumeMounts"].([]any)[1].(map[string]any)
			volume := pod["volumes"].([]any)[1].(map[string]any)
			if mount["mountPath"] != "/etc/peercache/clients" || mount["name"] != volume["name"] ||
				volume["configMap"].(map[string]any)["name"] != "askers" {
				t.Errorf("mounts %v of %v", mount, volume)
			}
		}},
		{"nobody asks without a webhook", []string{"webhook.enabled=false", "webhook.clientCA.configMapName=askers"},
			func(t *testing.T, all objects) {
				container, pod := operatorContainer(t, all)
				if strings.Contains(fmt.Sprint(container["args"], pod["volumes"]), "client-ca") || len(pod["volumes"].([]any)) != 1 {
					t.Errorf("parts of it are rendered: %v, %v", container["args"], pod["volumes"])
				}
			}},
		{"no certificate without a webhook", []string{"webhook.enabled=false", "webhook.certManager.enabled=true"}, func(t *testing.T, all objects) {
			container, pod := operatorContainer(t, all)
			if all.has("Certificate") || all.has("Issuer") || len(pod["volumes"].([]any)) != 1 || strings.Contains(fmt.Sprint(container["args"]), "certificates") {
				t.Errorf("parts of it are rendered: %v, %v", container["args"], pod["volumes"])
			}
		}},
		{"ports", []string{"webhook.port=10250", "metrics.port=9090"}, func(t *testing.T, all objects) {
			container, _ := operatorContainer(t, all)
			wantArgs(t, container, "--webhook-port=10250", "--metrics-bind-address=:9090")
		}},
		{"network policy", []string{
			"networkPolicy.enabled=true", "webhook.port=10250", "metrics.port=9090",
			"networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring",
		}, func(t *testing.T, all objects) {
			policy := all.get(t, "NetworkPolicy", "peercache-operator")
			container, _ := operatorContainer(t, all)
			var open, listens []any
			for _, rule := range list(t, policy, "spec", "ingress") {
				_, restricted := rule["from"]
				for _, port := range rule["ports"].([]any) {
					number := port.(map[string]any)["port"]
					open = append(open, number)
					if restricted != (number == int64(9090)) {
						t.Errorf("port %v: from whom is limited: %v", number, restricted)
					}
				}
			}
			for _, port := range container["ports"].([]any) {
				listens = append(listens, port.(map[string]any)["containerPort"])
			}
			byNumber := func(a, b any) int { return cmp.Compare(a.(int64), b.(int64)) }
			slices.SortFunc(open, byNumber)
			slices.SortFunc(listens, byNumber)
			if !slices.Equal(open, listens) {
				t.Errorf("ports %v are open, the operator listens at %v", open, listens)
			}
			selector, _, _ := unstructured.NestedMap(policy.Object, "spec", "podSelector")
			own, _, _ := unstructured.NestedMap(all.get(t, "Deployment", "peercache-operator").Object, "spec", "selector")
			if !equality.Semantic.DeepEqual(selector, own) {
				t.Errorf("it is about pods %v, the operator's are %v", selector, own)
			}
		}},
		{"network policy without a webhook", []string{"networkPolicy.enabled=true", "webhook.enabled=false"}, func(t *testing.T, all objects) {
			if text := fmt.Sprint(all.get(t, "NetworkPolicy", "peercache-operator").Object); strings.Contains(text, "9443") {
				t.Errorf("the webhook's port is open: %s", text)
			}
		}},
		{"CSI driver", []string{
			"csi.enabled=true", "csi.kubeletDir=/data/kubelet", "csi.priorityClassName=", "csi.nodeSelector.gpu=yes",
			"image.tag=1.2.3", "imagePullSecrets[0].name=creds",
		}, func(t *testing.T, all objects) {
			pod, _, err := unstructured.NestedMap(all.get(t, "DaemonSet", "peercache-csi").Object, "spec", "template", "spec")
			if err != nil || pod["priorityClassName"] != nil || pod["nodeSelector"] == nil || pod["imagePullSecrets"] == nil {
				t.Errorf("pod %v (error %v)", pod, err)
			}
			container := pod["containers"].([]any)[0].(map[string]any)
			wantArgs(t, container, "--kubelet-dir=/data/kubelet")
			if text := fmt.Sprint(pod); strings.Contains(text, "/var/lib/kubelet") || !strings.Contains(text, "operator:1.2.3") {
				t.Errorf("pod %s", text)
			}
		}},
		{"log level", []string{"logLevel=debug"}, func(t *testing.T, all objects) {
			container, _ := operatorContainer(t, all)
			wantArgs(t, container, "--zap-log-level=debug")
		}},
		{"traces", []string{"tracing.endpoint=http://collector.monitoring:4318"}, func(t *testing.T, all objects) {
			container, _ := operatorContainer(t, all)
			wantArgs(t, container, "--tracing-endpoint=http://collector.monitoring:4318")
		}},
		{"runbooks", []string{"metrics.runbooks=https://wiki.example.com/peercache/", "metrics.rules.enabled=true"}, func(t *testing.T, all objects) {
			container, _ := operatorContainer(t, all)
			wantArgs(t, container, "--runbooks=https://wiki.example.com/peercache/")
			text := fmt.Sprint(all.get(t, "PrometheusRule", "peercache-operator").Object)
			if strings.Contains(text, "github.com") || !strings.Contains(text, "https://wiki.example.com/peercache/PeerCacheOperatorDown.md") {
				t.Errorf("rule %s", text)
			}
		}},
		{"pod", []string{
			"podLabels.team=kv", "podAnnotations.note=x", "priorityClassName=high", "nodeSelector.zone=a",
			"tolerations[0].operator=Exists", "serviceAccount.annotations.role=r",
			// Must not take the pod out of the Deployment and the Service.
			"podLabels.app\\.kubernetes\\.io/component=other",
		}, func(t *testing.T, all objects) {
			_, pod := operatorContainer(t, all)
			if pod["priorityClassName"] != "high" || pod["nodeSelector"] == nil || pod["tolerations"] == nil {
				t.Errorf("pod %v", pod)
			}
			deployment := all.get(t, "Deployment", "peercache-operator")
			labels, _, _ := unstructured.NestedStringMap(deployment.Object, "spec", "template", "metadata", "labels")
			if labels["team"] != "kv" || labels["app.kubernetes.io/component"] != "operator" {
				t.Errorf("pod labels %v", labels)
			}
			if all.get(t, "ServiceAccount", "peercache-operator").GetAnnotations()["role"] != "r" {
				t.Error("the service account lacks its annotation")
			}
		}},
		{"a service monitor", []string{
			"metrics.podMonitors.enabled=true", "metrics.serviceMonitor.enabled=true", "metrics.port=9090",
			"metrics.serviceMonitor.labels.release=prometheus", "metrics.serviceMonitor.interval=15s",
		}, func(t *testing.T, all objects) {
			monitor, service := all.get(t, "ServiceMonitor", "peercache-operator"), all.get(t, "Service", "peercache-operator-metrics")
			endpoint, port := list(t, monitor, "spec", "endpoints")[0], list(t, service, "spec", "ports")[0]
			if monitor.GetLabels()["release"] != "prometheus" || endpoint["interval"] != "15s" {
				t.Errorf("labels %v, endpoint %v", monitor.GetLabels(), endpoint)
			}
			if endpoint["port"] != port["name"] || port["targetPort"] != "metrics" || port["port"] != int64(9090) {
				t.Errorf("endpoint %v, port %v", endpoint, port)
			}
			wanted, _, _ := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
			for key, other := range all {
				if chosen := labels.SelectorFromSet(wanted).Matches(labels.Set(other.GetLabels())); key.kind == "Service" && chosen != (other == service) {
					t.Errorf("%s is scraped: %v", key.name, chosen)
				}
			}
			selector, _, _ := unstructured.NestedStringMap(service.Object, "spec", "selector")
			own, _, _ := unstructured.NestedStringMap(all.get(t, "Deployment", "peercache-operator").Object, "spec", "selector", "matchLabels")
			if !maps.Equal(selector, own) {
				t.Errorf("it is about pods %v, the operator's are %v", selector, own)
			}
			if all[id{"PodMonitor", namespace, "peercache-operator"}] != nil {
				t.Error("the operator is scraped twice")
			}
			all.get(t, "PodMonitor", "peercache-nodes")
		}},
		{"metrics by HTTPS", []string{"metrics.tls.enabled=true", "metrics.serviceMonitor.enabled=true"}, func(t *testing.T, all objects) {
			container, _ := operatorContainer(t, all)
			wantArgs(t, container, "--metrics-tls")
			endpoint := list(t, all.get(t, "ServiceMonitor", "peercache-operator"), "spec", "endpoints")[0]
			wantScheme(t, endpoint, "peercache-webhook-cert")
		}},
		{"metrics by HTTPS, with a certificate of cert-manager", []string{
			"metrics.tls.enabled=true", "metrics.podMonitors.enabled=true", "webhook.certManager.enabled=true",
		}, func(t *testing.T, all objects) {
			endpoint := list(t, all.get(t, "PodMonitor", "peercache-operator"), "spec", "podMetricsEndpoints")[0]
			wantScheme(t, endpoint, "peercache-webhook-tls")
			if nodes := list(t, all.get(t, "PodMonitor", "peercache-nodes"), "spec", "podMetricsEndpoints")[0]; nodes["scheme"] != nil {
				t.Errorf("nodes are scraped by %v", nodes)
			}
		}},
		{"pod monitors", []string{
			"metrics.podMonitors.enabled=true", "metrics.podMonitors.labels.release=prometheus", "metrics.podMonitors.interval=15s",
		}, func(t *testing.T, all objects) {
			for _, name := range []string{"peercache-operator", "peercache-nodes", "peercache-sidecars"} {
				monitor := all.get(t, "PodMonitor", name)
				endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "podMetricsEndpoints")
				if monitor.GetLabels()["release"] != "prometheus" || endpoints[0].(map[string]any)["interval"] != "15s" {
					t.Errorf("%s: labels %v, endpoints %v", name, monitor.GetLabels(), endpoints)
				}
			}
		}},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) { test.check(t, helmTemplate(t, test.values...)) })
	}
}

func TestBadValuesAreRefused(t *testing.T) {
	for value, message := range map[string]string{
		"replicaCount=2":                                   "replicaCount",
		"replicas=two":                                     "replicas",
		"client.image.tag=9":                               "tag",
		"image.pullPolicy=Sometime":                        "pullPolicy",
		"image.tag=a b":                                    "tag",
		"webhook.port=443":                                 "port",
		"webhook.timeoutSeconds=60":                        "timeoutSeconds",
		"webhook.enable=true":                              "enable",
		"webhook.certManager.issuerRef=ours":               "issuerRef",
		"webhook.clientCA.commonNames={a}":                 "commonNames",
		"webhook.certManager.issuerRef.kind=ClusterIssuer": "kind",
		"crds.keep=maybe":                                  "keep",
		"networkPolicy.metricsFrom=monitoring":             "metricsFrom",
		"networkPolicy.metricsFrom[0].from=x":              "metricsFrom",
		"logLevel=loud":                                    "logLevel",
		"tracing.endpoint=collector:4318":                  "tracing",
		"metrics.runbooks=docs/runbooks":                   "runbooks",
		"tracing.endpoint=http://collector?tenant=a":       "tracing",
		"csi.kubeletDir=kubelet":                           "kubeletDir",
		"csi.kubeletDir=/data/kubelet/":                    "kubeletDir",
		"metrics.podMonitors.interval=often":               "interval",
	} {
		_, stderr, err := run(t.Context(), program(t, "HELM", "helm"), "template", release, "peercache",
			"--kube-version", kubeVersion, "--set", value)
		if err == nil || !strings.Contains(stderr, message) {
			t.Errorf("--set %s: error %v, message %q", value, err, stderr)
		}
	}
}

func operatorContainer(t *testing.T, all objects) (container, pod map[string]any) {
	t.Helper()
	deployment := all.get(t, "Deployment", "peercache-operator")
	pod, ok, err := unstructured.NestedMap(deployment.Object, "spec", "template", "spec")
	if !ok || err != nil {
		t.Fatalf("the Deployment has no pod (error %v)", err)
	}
	containers, _ := pod["containers"].([]any)
	if len(containers) != 1 {
		t.Fatalf("containers: %v", containers)
	}
	return containers[0].(map[string]any), pod
}

// wantScheme: an endpoint verifies the certificate of the webhook by the CA in a Secret.
func wantScheme(t *testing.T, endpoint map[string]any, secret string) {
	t.Helper()
	want := map[string]any{
		"serverName": "peercache-webhook." + namespace + ".svc",
		"ca":         map[string]any{"secret": map[string]any{"name": secret, "key": "ca.crt"}},
	}
	if endpoint["scheme"] != "https" || !equality.Semantic.DeepEqual(endpoint["tlsConfig"], want) {
		t.Errorf("scraped by %v", endpoint)
	}
}

func wantArgs(t *testing.T, container map[string]any, want ...string) {
	t.Helper()
	for _, arg := range want {
		if !slices.Contains(container["args"].([]any), any(arg)) {
			t.Errorf("args %v lack %s", container["args"], arg)
		}
	}
}

func text(t *testing.T, object *unstructured.Unstructured, fields ...string) string {
	t.Helper()
	value, ok, err := unstructured.NestedString(object.Object, fields...)
	if !ok || err != nil {
		t.Fatalf("%s has no %v (error %v)", object.GetName(), fields, err)
	}
	return value
}

func list(t *testing.T, object *unstructured.Unstructured, fields ...string) []map[string]any {
	t.Helper()
	items, ok, err := unstructured.NestedSlice(object.Object, fields...)
	if !ok || err != nil {
		t.Fatalf("%s has no %v (error %v)", object.GetName(), fields, err)
	}
	var maps []map[string]any
	for _, item := range items {
		maps = append(maps, item.(map[string]any))
	}
	return maps
}
