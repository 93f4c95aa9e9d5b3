// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/inject"
	"github.com/peercache/peercache/operator/plan"
)

// injectFlags are the flags of inject.
type injectFlags struct {
	file, clusterFile           string
	clientImage, dataplaneImage string
	dryRun                      bool
}

func (p *plugin) injectCommand() *cobra.Command {
	var out format
	flags := injectFlags{
		clientImage:    "ghcr.io/peercache/peercache/client:" + p.version,
		dataplaneImage: "ghcr.io/peercache/peercache/dataplane:" + p.version,
	}
	command := &cobra.Command{
		Use:     "inject --dry-run -f FILE",
		GroupID: groupSetUp,
		Short:   "Show what the webhook makes of a pod, as a diff, or why it leaves it alone",
		Example: "  kubectl peercache inject --dry-run -f decode.yaml",
		Long: "Show what the webhook would make of the pods in a file: a Pod, or anything with a pod template, such as a\n" +
			"Deployment or a LeaderWorkerSet. The rules are those of the webhook, but run here. The cluster is the one that the\n" +
			"pod's label " + v1alpha1.LabelInject + " names, or that of --cluster-file, with which no API server is asked.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if !flags.dryRun {
				return errors.New("kubectl peercache changes nothing: add --dry-run to see what the webhook would do; it works " +
					"by itself on pods with the label " + v1alpha1.LabelInject)
			}
			if flags.file == "" {
				return errors.New("no file is given: write -f FILE, or -f - for standard input")
			}
			r, err := p.inject(command.Context(), flags)
			if err != nil {
				return err
			}
			return out.print(p.Out, r)
		},
	}
	out.addTo(command)
	command.Flags().StringVarP(&flags.file, "filename", "f", "", "file with YAML or JSON; - for standard input")
	command.Flags().BoolVar(&flags.dryRun, "dry-run", false, "required: nothing is created")
	command.Flags().StringVar(&flags.clusterFile, "cluster-file", "", "file with the PeerCacheCluster, instead of the API server's")
	command.Flags().StringVar(&flags.clientImage, "client-image", flags.clientImage,
		"the operator's --client-image, for a cluster that names none")
	command.Flags().StringVar(&flags.dataplaneImage, "dataplane-image", flags.dataplaneImage,
		"the operator's --dataplane-image, for a cluster that names none")
	return command
}

// options are the options of the operator's webhook.
func (f injectFlags) options() inject.Options {
	return inject.Options{ClientImage: f.clientImage, Plan: plan.Facts{DataplaneImage: f.dataplaneImage}}
}

func (p *plugin) inject(ctx context.Context, flags injectFlags) (report, error) {
	text, err := p.read(flags.file)
	if err != nil {
		return nil, err
	}
	pods, err := podsOf(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flags.file, err)
	}
	find, namespace := p.factsFromAPI, ""
	if flags.clusterFile != "" {
		cluster, err := p.readCluster(flags.clusterFile)
		if err != nil {
			return nil, err
		}
		namespace = cluster.Namespace
		find = func(_ context.Context, pod *corev1.Pod, options inject.Options) (inject.Facts, string, error) {
			return inject.FactsFor(cluster, pod.Namespace, options),
				cmp.Or(notRequested(pod, cluster), inject.RefusesOthers(cluster, pod.Namespace)), nil
		}
	} else if namespace, err = p.namespace(); err != nil {
		return nil, err
	}
	r := &injectReport{}
	for _, found := range pods {
		found.pod.Namespace = cmp.Or(found.pod.Namespace, namespace)
		facts, skip, err := find(ctx, found.pod, flags.options())
		if err != nil {
			return nil, err
		}
		one, err := dryRun(found, facts, skip)
		if err != nil {
			return nil, err
		}
		r.Pods = append(r.Pods, one)
	}
	return r, nil
}

func (p *plugin) read(file string) ([]byte, error) {
	if file == "-" {
		text, err := io.ReadAll(p.In)
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		return text, nil
	}
	return os.ReadFile(file) //nolint:gosec // the user names it
}

func (p *plugin) namespace() (string, error) {
	a, err := p.connect()
	if err != nil {
		return "", fmt.Errorf("%w; --cluster-file works without an API server", err)
	}
	return a.namespace, nil
}

const noLabel = "the pod has no label " + v1alpha1.LabelInject + ", so the webhook is not called: write the name of a " +
	"PeerCacheCluster there"

// notRequested returns why the webhook would not connect the pod to the cluster, or "".
func notRequested(pod *corev1.Pod, cluster *v1alpha1.PeerCacheCluster) string {
	switch asked := pod.Labels[v1alpha1.LabelInject]; asked {
	case "":
		return noLabel
	case cluster.Name:
		return ""
	default:
		return fmt.Sprintf("the pod's label %s names %s, and --cluster-file holds %s: correct one of them",
			v1alpha1.LabelInject, asked, cluster.Name)
	}
}

// factsFromAPI gathers the facts about the cluster that the pod names. Or it returns the reason why the webhook would not
// find that cluster, or would leave the pod alone.
func (p *plugin) factsFromAPI(ctx context.Context, pod *corev1.Pod, options inject.Options) (inject.Facts, string, error) {
	var none inject.Facts
	key := inject.ClusterOf(pod, pod.Namespace)
	if key.Name == "" {
		return none, noLabel, nil
	}
	a, err := p.connect()
	if err != nil {
		return none, "", err
	}
	cluster := &v1alpha1.PeerCacheCluster{}
	switch err := a.Get(ctx, key, cluster); {
	case apierrors.IsNotFound(err):
		return none, "PeerCacheCluster " + key.String() + " does not exist: create it, correct the label " + v1alpha1.LabelInject +
			", or name its namespace in the annotation " + v1alpha1.AnnotationClusterNamespace, nil
	case err != nil:
		return none, "", explain(err, "reading PeerCacheCluster "+key.String())
	case !cluster.DeletionTimestamp.IsZero():
		return none, "PeerCacheCluster " + key.String() + " is being deleted", nil
	}
	if reason := inject.RefusesNamespace(ctx, a, cluster, pod.Namespace); reason != "" {
		return none, reason, nil
	}
	facts, err := inject.Gather(ctx, a, a, cluster, pod.Namespace, options)
	if err != nil {
		return none, "", explain(err, "reading what the pod's namespace admits")
	}
	return facts, "", nil
}

type injectReport struct {
	Pods []injected `json:"pods"`
}

type injected struct {
	// Name is the name of the pod, or of the object whose template the pod is.
	Name     string `json:"name"`
	Injected bool   `json:"injected"`
	// Partly is true where a container is not seen to get the flags; Note says why.
	Partly bool `json:"partly"`
	// SkipReason is why the webhook would leave the pod or one of its containers alone. Note is what the user still has
	// to do.
	SkipReason string `json:"skipReason,omitempty"`
	Note       string `json:"note,omitempty"`
	// Advice is what to decide where the defaults of SGLang depend on the machine. The webhook does not write it anywhere.
	Advice []string `json:"advice,omitempty"`
	// Diff is a unified diff from the pod as it is written to the pod after injection.
	Diff string      `json:"diff,omitempty"`
	Pod  *corev1.Pod `json:"pod"`
}

// dryRun applies the webhook's rules to a pod, unless skip is a reason to leave it alone.
func dryRun(found foundPod, facts inject.Facts, skip string) (injected, error) {
	result := inject.Result{Pod: found.pod, SkipReason: skip}
	if skip == "" {
		result = inject.Inject(found.pod, facts)
	}
	before, err := manifest(found.pod)
	if err != nil {
		return injected{}, err
	}
	after, err := manifest(result.Pod)
	if err != nil {
		return injected{}, err
	}
	diff, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(before), B: difflib.SplitLines(after),
		FromFile: found.name, ToFile: found.name + " (injected)", Context: 3,
	})
	if err != nil {
		return injected{}, fmt.Errorf("comparing the pods: %w", err)
	}
	if before == after {
		diff = ""
	}
	return injected{Name: found.name, Injected: result.Injected, Partly: result.Partly, SkipReason: result.SkipReason, Note: result.Note,
		Advice: inject.Advice(result.Pod), Diff: diff, Pod: result.Pod}, nil
}

// manifest writes a pod as a user does.
func manifest(pod *corev1.Pod) (string, error) {
	text, err := yaml.Marshal(pod)
	if err != nil {
		return "", fmt.Errorf("writing the pod: %w", err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	kept := lines[:0]
	for _, line := range lines {
		// The encoder writes these lines for every pod; users do not.
		switch strings.TrimSpace(line) {
		case "status: {}", "creationTimestamp: null", "resources: {}":
		default:
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, ""), nil
}

func (r *injectReport) text(w io.Writer) {
	for i, p := range r.Pods {
		if i > 0 {
			_, _ = fmt.Fprintln(w)
		}
		state := "would be left alone"
		switch {
		case p.Partly:
			state = "would be connected, but its engine is not seen to use it"
		case p.Injected:
			state = "would be connected"
		}
		_, _ = fmt.Fprintf(w, "%s: %s\n", p.Name, state)
		if p.SkipReason != "" {
			_, _ = fmt.Fprintln(w, "reason:", p.SkipReason)
		}
		if p.Note != "" {
			_, _ = fmt.Fprintln(w, "note:", p.Note)
		}
		for _, text := range p.Advice {
			_, _ = fmt.Fprintln(w, "advice:", text)
		}
		if p.Diff != "" {
			_, _ = fmt.Fprint(w, "\n", p.Diff)
		}
	}
}
