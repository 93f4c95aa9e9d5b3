// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/lib/version"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

const (
	packageName = "peercache"
	channel     = "candidate"

	// OLM makes the webhook's certificate and mounts it here.
	certificates = "/tmp/k8s-webhook-server/serving-certs"
)

// build makes the files of a bundle.
func build(in sources) (map[string][]byte, error) {
	csv, err := clusterServiceVersion(in)
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(csv)
	if err != nil {
		return nil, fmt.Errorf("writing the ClusterServiceVersion: %w", err)
	}
	files := map[string][]byte{
		"manifests/peercache.clusterserviceversion.yaml": text,
		"manifests/peercache.io_peercacheclusters.yaml":  in.crdText,
		"metadata/annotations.yaml":                      annotations(),
		"bundle.Dockerfile":                              dockerfile(),
	}
	disruption := *in.disruption.DeepCopy()
	disruption.Namespace = "" // it is made where the operator is
	if text, err = yaml.Marshal(disruption); err != nil {
		return nil, fmt.Errorf("writing PodDisruptionBudget %s: %w", disruption.Name, err)
	}
	files["manifests/"+disruption.Name+".poddisruptionbudget.yaml"] = text
	for _, role := range slices.Concat(in.users, in.features) {
		if text, err = yaml.Marshal(role); err != nil {
			return nil, fmt.Errorf("writing ClusterRole %s: %w", role.Name, err)
		}
		files["manifests/"+role.Name+".clusterrole.yaml"] = text
	}
	return files, nil
}

// clusterServiceVersion adds to what is shown what is installed.
func clusterServiceVersion(in sources) (v1alpha1.ClusterServiceVersion, error) {
	csv := *in.shown.DeepCopy()
	release, err := semver.Parse(in.version)
	if err != nil {
		return csv, fmt.Errorf("VERSION %q is not one, such as 1.2.3: %w", in.version, err)
	}
	csv.Name = packageName + ".v" + in.version
	csv.Spec.Version = version.OperatorVersion{Version: release}
	samples, err := json.MarshalIndent(in.samples, "", "  ")
	if err != nil {
		return csv, fmt.Errorf("writing the samples: %w", err)
	}
	csv.Annotations["alm-examples"] = string(samples)
	csv.Annotations["olm.skipRange"] = "<" + in.version

	owned := &csv.Spec.CustomResourceDefinitions.Owned[0]
	owned.Name, owned.Kind, owned.Version = in.crd.Name, in.crd.Spec.Names.Kind, in.crd.Spec.Versions[0].Name

	deployment := *in.deployment.DeepCopy()
	container := &deployment.Spec.Template.Spec.Containers[0]
	csv.Annotations["containerImage"] = container.Image
	container.Args = append(container.Args, "--webhook-certificates="+certificates)
	account := deployment.Spec.Template.Spec.ServiceAccountName
	csv.Spec.InstallStrategy.StrategySpec = v1alpha1.StrategyDetailsDeployment{
		DeploymentSpecs:    []v1alpha1.StrategyDeploymentSpec{{Name: deployment.Name, Label: deployment.Labels, Spec: deployment.Spec}},
		ClusterPermissions: []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: account, Rules: in.cluster.Rules}},
		Permissions:        []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: account, Rules: in.namespaced.Rules}},
	}
	return csv, addWebhooks(&csv, in)
}

// addWebhooks describes the webhooks as OLM makes them: with a Service and a certificate of its own.
func addWebhooks(csv *v1alpha1.ClusterServiceVersion, in sources) error {
	port, err := webhookPort(in)
	if err != nil {
		return err
	}
	for _, w := range in.webhook.Webhooks {
		target := intstr.FromInt32(port)
		csv.Spec.WebhookDefinitions = append(csv.Spec.WebhookDefinitions, v1alpha1.WebhookDescription{
			Type: v1alpha1.MutatingAdmissionWebhook, GenerateName: w.Name, DeploymentName: in.deployment.Name,
			ContainerPort: *w.ClientConfig.Service.Port, TargetPort: &target, WebhookPath: w.ClientConfig.Service.Path,
			AdmissionReviewVersions: w.AdmissionReviewVersions, Rules: w.Rules, ObjectSelector: w.ObjectSelector,
			MatchPolicy: w.MatchPolicy, FailurePolicy: w.FailurePolicy, ReinvocationPolicy: w.ReinvocationPolicy,
			SideEffects: w.SideEffects, TimeoutSeconds: w.TimeoutSeconds,
		})
	}
	return nil
}

func webhookPort(in sources) (int32, error) {
	for _, port := range in.deployment.Spec.Template.Spec.Containers[0].Ports {
		if port.Name == "webhook" {
			return port.ContainerPort, nil
		}
	}
	return 0, errors.New("config/manager/deployment.yaml: the container has no port named webhook")
}

// labels say what a bundle is, in its metadata and on its image.
var labels = [][2]string{
	{"operators.operatorframework.io.bundle.mediatype.v1", "registry+v1"},
	{"operators.operatorframework.io.bundle.manifests.v1", "manifests/"},
	{"operators.operatorframework.io.bundle.metadata.v1", "metadata/"},
	{"operators.operatorframework.io.bundle.package.v1", packageName},
	{"operators.operatorframework.io.bundle.channels.v1", channel},
	{"operators.operatorframework.io.bundle.channel.default.v1", channel},
}

func annotations() []byte {
	var text strings.Builder
	text.WriteString("annotations:\n")
	for _, label := range labels {
		fmt.Fprintf(&text, "  %s: %s\n", label[0], label[1])
	}
	return []byte(text.String())
}

func dockerfile() []byte {
	var text strings.Builder
	text.WriteString("FROM scratch\n")
	for _, label := range labels {
		fmt.Fprintf(&text, "LABEL %s=%s\n", label[0], label[1])
	}
	text.WriteString("COPY manifests /manifests/\nCOPY metadata /metadata/\n")
	return []byte(text.String())
}
