// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// maxLog bounds one log in a bundle in bytes, however long its lines are.
const maxLog = int64(4 << 20)

func (p *plugin) bundleCommand() *cobra.Command {
	file, lines := "", int64(2000)
	command := &cobra.Command{
		Use:     "support-bundle [NAME]",
		GroupID: groupFind,
		Short:   "Pack all that a bug report needs into one archive, without secrets",
		Example: "  kubectl peercache support-bundle kv -n inference",
		Long: "Write an archive with the PeerCacheClusters, the operator, the members' pods, logs, status and metrics, what the\n" +
			"doctor reports, events, and what the machines can allocate. Secrets are never read. Values of environment variables,\n" +
			"foreign annotations, and possible secrets in logs and arguments are replaced by " + redacted + ".",
		Args: atMostOneName,
		RunE: func(command *cobra.Command, names []string) error {
			if lines < 1 {
				return fmt.Errorf("--log-lines is %d: write 1 or more", lines)
			}
			return p.supportBundle(command.Context(), names, file, lines)
		},
	}
	command.Flags().StringVarP(&file, "output", "o", "", "the archive; peercache-support-TIME.tar.gz when left out")
	command.Flags().Int64Var(&lines, "log-lines", lines, "last lines of each log")
	return command
}

func (p *plugin) supportBundle(ctx context.Context, names []string, file string, lines int64) (err error) {
	a, err := p.connect()
	if err != nil {
		return err
	}
	clusters, err := p.clusters(ctx, a, names)
	if err != nil {
		return err
	}
	root := "peercache-support-" + p.now().UTC().Format("20060102-150405")
	file = cmp.Or(file, root+".tar.gz")
	// The archive is readable for its user alone, and replaces no file.
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the user names it
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists: name another file with -o, or remove it", file)
	}
	if err != nil {
		return fmt.Errorf("making the archive: %w: name another file with -o", err)
	}
	defer func() {
		if closeErr := out.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			err = errors.Join(err, os.Remove(file))
		}
	}()
	b := newBundle(out, root, p.now())
	b.text("README.txt", []byte(bundleReadme))
	b.text("version.txt", []byte("kubectl-peercache "+p.version+"\n"))
	for i := range clusters {
		p.bundleCluster(ctx, a, b, &clusters[i], lines)
	}
	bundleOperator(ctx, a, b, lines)
	bundleMachines(ctx, a, b)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("making the archive: %w", err)
	}
	missing, err := b.close()
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	_, _ = fmt.Fprintf(p.Out, "%s: %s of %s; could not be collected: %d (errors.txt)\n", file, plural(b.count, "file"),
		plural(len(clusters), "cluster"), missing)
	_, _ = fmt.Fprintln(p.Out, "next: check what it contains before you send it to anyone")
	return nil
}

const bundleReadme = `The state of a PeerCache cluster: see docs/kubectl.md of PeerCache.

clusters/NAMESPACE/NAME/  the PeerCacheCluster, its objects and events, the output of status, members and doctor
clusters/.../members/MEMBER/  its pod, logs, /v1/status and /metrics
operator/                 the operator's Deployment, pods, logs and events
machines.yaml             what the Kubernetes nodes can allocate
errors.txt                what could not be collected, and why

Secrets were never read. Values of environment variables and foreign annotations, and possible secrets in logs and
arguments, were replaced by ` + redacted + `. Names of machines, pods and namespaces and addresses are in it.
`

func (p *plugin) bundleCluster(
	ctx context.Context, a *access, b *bundle, cluster *v1alpha1.PeerCacheCluster, lines int64,
) {
	folder := path.Join("clusters", cluster.Namespace, cluster.Name)
	_, _ = fmt.Fprintln(p.ErrOut, "reading", identityOf(cluster))
	b.object(path.Join(folder, "cluster.yaml"), cluster)
	b.report(path.Join(folder, "status.txt"), p.statusReport(ctx, a, []v1alpha1.PeerCacheCluster{*cluster}))

	owned := []client.ListOption{
		client.InNamespace(cluster.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name},
	}
	b.list(ctx, a, path.Join(folder, "daemonsets.yaml"), &appsv1.DaemonSetList{}, owned...)
	b.list(ctx, a, path.Join(folder, "configmaps.yaml"), &corev1.ConfigMapList{}, owned...)
	b.list(ctx, a, path.Join(folder, "services.yaml"), &corev1.ServiceList{}, owned...)
	b.list(ctx, a, path.Join(folder, "events.yaml"), &corev1.EventList{}, client.InNamespace(cluster.Namespace))

	pods, err := a.nodePods(ctx, cluster)
	b.addFailure(err)
	var answers []answer
	// The nodes are read in batches, so that memory does not hold the files of all of them.
	for batch := range slices.Chunk(pods, maxConcurrent) {
		for _, got := range p.ask(ctx, a, cluster, batch) {
			answers = append(answers, got)
			b.addFailure(got.err)
		}
		files := eachPod(batch, func(pod *corev1.Pod) *podFiles { return nodeFiles(ctx, a, cluster, pod, lines) })
		for _, found := range files {
			found.addTo(b, path.Join(folder, "members", nodeName(found.pod)))
		}
	}
	hosts := answersOf(answers, discoveryHosts(pods))
	members, err := makeMembers(identityOf(cluster), pods, hosts, addresses(ctx, a, hosts))
	b.addFailure(err)
	if err == nil {
		b.report(path.Join(folder, "members.txt"), members)
	}
	engines, err := a.enginePods(ctx, cluster)
	b.addFailure(err)
	b.report(path.Join(folder, "doctor.txt"), makeDoctor(cluster, answers, runDoctors(ctx, a, pods), engines))
}

func answersOf(answers []answer, hosts []*corev1.Pod) []answer {
	return slices.DeleteFunc(slices.Clone(answers), func(got answer) bool { return !slices.Contains(hosts, got.pod) })
}

// podFiles is a pod with its logs and answers.
type podFiles struct {
	pod      *corev1.Pod
	texts    map[string][]byte
	failures []error
}

func (f *podFiles) keep(name string, text []byte, err error) {
	if err != nil {
		f.failures = append(f.failures, err)
		return
	}
	f.texts[name] = text
}

// logsOf reads the log of every container, and of its previous run after a restart.
func logsOf(ctx context.Context, a *access, pod *corev1.Pod, lines int64) *podFiles {
	f := &podFiles{pod: pod, texts: map[string][]byte{}}
	for _, container := range pod.Status.ContainerStatuses {
		options := corev1.PodLogOptions{
			Container: container.Name, TailLines: new(lines), LimitBytes: new(maxLog), Timestamps: true,
		}
		if container.State.Waiting == nil {
			text, err := a.pods.logs(ctx, pod, options)
			f.keep(container.Name+".log", text, err)
		}
		if container.RestartCount > 0 {
			options.Previous = true
			text, err := a.pods.logs(ctx, pod, options)
			f.keep(container.Name+"-previous.log", text, err)
		}
	}
	return f
}

func nodeFiles(
	ctx context.Context, a *access, cluster *v1alpha1.PeerCacheCluster, pod *corev1.Pod, lines int64,
) *podFiles {
	f := logsOf(ctx, a, pod, lines)
	if notRunning(pod) != "" {
		return f
	}
	for name, from := range map[string]string{"status.json": "/v1/status", "metrics.txt": "/metrics"} {
		text, err := a.pods.get(ctx, pod, cluster.Spec.Monitoring.Port, from)
		f.keep(name, text, err)
	}
	return f
}

func (f *podFiles) addTo(b *bundle, folder string) {
	b.object(path.Join(folder, "pod.yaml"), f.pod)
	for _, name := range slices.Sorted(maps.Keys(f.texts)) {
		b.text(path.Join(folder, name), f.texts[name])
	}
	for _, err := range f.failures {
		b.addFailure(err)
	}
}

// bundleOperator looks for the operator in all namespaces. A user without the right to that gets a line in errors.txt.
func bundleOperator(ctx context.Context, a *access, b *bundle, lines int64) {
	labels := client.MatchingLabels{plan.LabelName: plan.AppName, plan.LabelComponent: "operator"}
	var deployments appsv1.DeploymentList
	if err := a.List(ctx, &deployments, labels); err != nil {
		b.addFailure(explain(err, "looking for the operator"))
		return
	}
	if len(deployments.Items) == 0 {
		b.addFailure(errors.New("no Deployment has the operator's labels: it is not installed, or under other labels"))
	}
	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		folder := path.Join("operator", deployment.Namespace)
		b.object(path.Join(folder, deployment.Name+".yaml"), deployment)
		b.list(ctx, a, path.Join(folder, "events.yaml"), &corev1.EventList{}, client.InNamespace(deployment.Namespace))
		var pods corev1.PodList
		if err := a.List(ctx, &pods, client.InNamespace(deployment.Namespace), labels); err != nil {
			b.addFailure(explain(err, "listing the operator's pods"))
		}
		for j := range pods.Items {
			pod := &pods.Items[j]
			logsOf(ctx, a, pod, lines).addTo(b, path.Join(folder, pod.Name))
		}
	}
}

// bundleMachines adds the Kubernetes nodes, without the fields that placement does not depend on.
func bundleMachines(ctx context.Context, a *access, b *bundle) {
	var machines corev1.NodeList
	if err := a.List(ctx, &machines); err != nil {
		b.addFailure(explain(err, "listing the Kubernetes nodes"))
		return
	}
	for i := range machines.Items {
		machine := &machines.Items[i]
		machine.Annotations = nil
		machine.Status.Images = nil
		machine.Status.VolumesAttached, machine.Status.VolumesInUse = nil, nil
	}
	b.object("machines.yaml", &machines)
}
