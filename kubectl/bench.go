// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/plan"
)

// benchProgram is a program of the data plane's image. To the node it is an engine like others.
const benchProgram = "peercache-perf"

// benchStepTimeout bounds one run of benchProgram, which takes seconds even on a slow network.
const benchStepTimeout = time.Minute

// benchFlags are the flags of bench.
type benchFlags struct {
	nodes    []string
	maxNodes int
	size     resource.Quantity
	page     resource.Quantity
	batch    int
	threads  int
	timeout  time.Duration
}

func (p *plugin) benchCommand() *cobra.Command {
	var out format
	flags := benchFlags{
		maxNodes: 4, size: resource.MustParse("256Mi"), page: resource.MustParse("1Mi"), batch: 16, threads: 2,
		timeout: 5 * time.Minute,
	}
	command := &cobra.Command{
		Use:     "bench [NAME]",
		GroupID: groupFind,
		Short:   "Measure how fast each member reads from each other one",
		Example: "  kubectl peercache bench kv -n inference --max-members 4",
		Long: "Measure each pair of members: one stores pages in its pool, and the other reads them once, as an engine does. It runs\n" +
			"in the members' pods, with their cores and memory, one pair at a time. The benchmark stores up to --size in each pool,\n" +
			"then removes its pages. Full pools evict other pages for it. The exit status is 1 when a pair cannot be measured or\n" +
			"pages are missed.",
		Args: atMostOneName,
		RunE: func(command *cobra.Command, names []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(command.Context(), flags.timeout)
			defer cancel()
			r, err := p.bench(ctx, names, flags)
			if err != nil {
				return err
			}
			if err := out.print(p.Out, r); err != nil {
				return err
			}
			if r.hasProblems() {
				return errUnhealthy
			}
			return nil
		},
	}
	out.addTo(command)
	f := command.Flags()
	f.StringSliceVar(&flags.nodes, "members", nil, "members to measure between, as kubectl peercache members names them")
	f.IntVar(&flags.maxNodes, "max-members", flags.maxNodes, "how many members are taken where --members names none")
	f.Var(quantity{&flags.size}, "size", "bytes of pages for each pair; at most an eighth of the smallest pool is taken")
	f.Var(quantity{&flags.page}, "page-size", "bytes of a page")
	f.IntVar(&flags.batch, "batch", flags.batch, "pages of a call")
	f.IntVar(&flags.threads, "threads", flags.threads, "engine threads, each with a call of its own")
	f.DurationVar(&flags.timeout, "timeout", flags.timeout, "limit for the whole benchmark")
	return command
}

// quantity implements pflag.Value for a resource.Quantity.
type quantity struct{ *resource.Quantity }

// Set parses the value of the flag.
func (q quantity) Set(text string) error {
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("%q is not a size: write for example 256Mi", text)
	}
	*q.Quantity = parsed
	return nil
}

func (q quantity) Type() string { return "size" }

func (f *benchFlags) check() error {
	switch {
	case f.page.Value() < 4096 || f.page.Value() > 64<<20:
		return fmt.Errorf("--page-size is %s: write a size from 4Ki to 64Mi", &f.page)
	case f.page.Value()%8 != 0:
		return fmt.Errorf("--page-size is %s: write a multiple of 8 bytes", &f.page)
	case f.batch < 1 || f.threads < 1 || f.threads > 64:
		return errors.New("--batch and --threads must be at least 1, and --threads at most 64: leave them out for 16 and 2")
	case f.maxNodes < 2:
		return errors.New("--max-members must be at least 2: leave it out for 4")
	}
	return nil
}

// workload is the number of pages that each pair stores and reads. Reads of the first warm pages are not measured.
type workload struct {
	pages, warm int64
}

// workloadFor limits the pages to an eighth of the smallest pool. The buffers of benchProgram count against
// resources.memoryOverhead of the node's container: beyond the memory limit, the kernel kills the node.
func workloadFor(cluster *v1alpha1.PeerCacheCluster, smallestPool uint64, f benchFlags) (workload, error) {
	call := f.page.Value() * int64(f.batch) * int64(f.threads)
	overhead := cluster.Spec.Resources.MemoryOverhead.Value()
	if call > overhead/4 {
		return workload{}, fmt.Errorf("--page-size × --batch × --threads is %s, more than a quarter of resources.memoryOverhead (%s), "+
			"in which the benchmark runs: lower one of the flags, or raise the field", size(float64(call)), size(float64(overhead)))
	}
	bytes := min(f.size.Value(), int64(smallestPool/8)) //nolint:gosec // an eighth of a pool fits
	round := int64(f.batch * f.threads)
	s := workload{pages: bytes / f.page.Value() / round * round, warm: round}
	if s.pages < 3*s.warm {
		return workload{}, fmt.Errorf("%s hold %d pages, and the benchmark needs %d: raise --size, lower --page-size, --batch or "+
			"--threads, or use a cluster with larger pools", size(float64(bytes)), bytes/f.page.Value(), 3*s.warm)
	}
	return s, nil
}

func (p *plugin) bench(ctx context.Context, names []string, flags benchFlags) (*benchReport, error) {
	a, cluster, err := p.oneCluster(ctx, names)
	if err != nil {
		return nil, err
	}
	pods, err := a.nodePods(ctx, cluster)
	if err != nil {
		return nil, err
	}
	chosen, err := benchNodes(identityOf(cluster), pods, flags)
	if err != nil {
		return nil, err
	}
	smallest := uint64(0)
	for _, got := range p.ask(ctx, a, cluster, chosen) {
		if got.err != nil {
			return nil, got.err
		}
		if capacity := got.status.Pool.CapacityBytes; smallest == 0 || capacity < smallest {
			smallest = capacity
		}
	}
	s, err := workloadFor(cluster, smallest, flags)
	if err != nil {
		return nil, err
	}
	r := &benchReport{identity: identityOf(cluster), PageBytes: flags.page.Value(), Pages: s.pages - s.warm,
		Batch: flags.batch, Threads: flags.threads}
	for _, pod := range chosen {
		r.Nodes = append(r.Nodes, nodeName(pod))
	}
	key, err := randomFirstKey()
	if err != nil {
		return nil, err
	}
	done := 0
	for _, reader := range chosen {
		for _, holder := range chosen {
			if reader == holder {
				continue
			}
			done++
			_, _ = fmt.Fprintf(p.ErrOut, "%d of %d: %s reads from %s\n", done, len(chosen)*(len(chosen)-1),
				nodeName(reader), nodeName(holder))
			r.Pairs = append(r.Pairs, benchPair(ctx, a, holder, reader, key, s, flags))
			key += uint64(s.pages) //nolint:gosec // it is positive
		}
	}
	return r, nil
}

// randomFirstKey draws the number of the first page. The key of page n is the same in every run, so two benchmarks must
// not use the same numbers.
func randomFirstKey() (uint64, error) {
	var bytes [8]byte
	if _, err := rand.Read(bytes[:]); err != nil {
		return 0, fmt.Errorf("drawing the number of the first page: %w", err)
	}
	return binary.LittleEndian.Uint64(bytes[:]) >> 16, nil
}

// benchNodes returns the ready nodes that --members names, or the first --max-members ones.
func benchNodes(name identity, pods []*corev1.Pod, flags benchFlags) ([]*corev1.Pod, error) {
	ready := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return notRunning(pod) != "" || !podReady(pod) })
	if len(flags.nodes) > 0 {
		var chosen []*corev1.Pod
		for _, wanted := range flags.nodes {
			i := slices.IndexFunc(ready, func(pod *corev1.Pod) bool { return nodeName(pod) == wanted })
			if i < 0 {
				return nil, fmt.Errorf("--members names %s, which is not a ready member of %s: see kubectl peercache members %s",
					wanted, name, name.arguments())
			}
			if !slices.Contains(chosen, ready[i]) {
				chosen = append(chosen, ready[i])
			}
		}
		ready = chosen
	}
	if len(ready) < 2 {
		return nil, fmt.Errorf("%s has %s to measure between, and two are needed: see kubectl peercache doctor %s",
			name, plural(len(ready), "ready member"), name.arguments())
	}
	if len(flags.nodes) == 0 {
		ready = ready[:min(len(ready), flags.maxNodes)]
	}
	return ready, nil
}

// benchPair stores pages on holder and reads them from reader.
func benchPair(
	ctx context.Context, a *access, holder, reader *corev1.Pod, key uint64, s workload, flags benchFlags,
) benchResult {
	result := benchResult{Holder: nodeName(holder), Reader: nodeName(reader)}
	options := []string{
		"--page-bytes", strconv.FormatInt(flags.page.Value(), 10), "--batch", strconv.Itoa(flags.batch),
		"--threads", strconv.Itoa(flags.threads), "--window", strconv.Itoa(flags.batch * flags.threads),
		"--pages", strconv.FormatInt(s.pages, 10), "--first-key", strconv.FormatUint(key, 10), "--seconds", "0",
	}
	defer func() {
		// The pages are removed even after the timeout: they would displace pages of engines.
		clearCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), benchStepTimeout)
		defer cancel()
		if _, err := runPerf(clearCtx, a, holder, "clear"); err != nil && result.Error == "" {
			result.Error = err.Error()
		}
	}()
	stored, err := runPerf(ctx, a, holder, append([]string{"set"}, options...)...)
	if err == nil && stored.Hits < stored.Pages {
		err = fmt.Errorf("only %d of %d pages could be stored on %s: its pool is full of pages in use; lower --size",
			stored.Hits, stored.Pages, result.Holder)
	}
	if err != nil {
		result.Error = err.Error()
		return result
	}
	read, err := runPerf(ctx, a, reader, append([]string{"get", "--warm-pages", strconv.FormatInt(s.warm, 10)}, options...)...)
	if err != nil {
		result.Error = err.Error()
		return result
	}
	result.BytesPerSecond = float64(read.Bytes) / max(read.Seconds, 1e-9)
	result.Pages, result.Hits = read.Pages, read.Hits
	result.CallP50Microseconds, result.CallP99Microseconds = read.Latency.P50, read.Latency.P99
	return result
}

// perfResult is the output of benchProgram.
type perfResult struct {
	Seconds float64 `json:"seconds"`
	Pages   uint64  `json:"pages"`
	Hits    uint64  `json:"hits"`
	Bytes   uint64  `json:"bytes"`
	Latency struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"latency_us"`
}

func runPerf(ctx context.Context, a *access, pod *corev1.Pod, arguments ...string) (perfResult, error) {
	ctx, cancel := context.WithTimeout(ctx, benchStepTimeout)
	defer cancel()
	command := append([]string{benchProgram}, arguments...)
	command = append(command, "--socket", plan.SocketPath(pod.Labels[v1alpha1.LabelGroup]))
	output, err := a.pods.exec(ctx, pod, plan.ContainerName, command...)
	if err != nil && strings.Contains(err.Error(), "executable file not found") {
		return perfResult{}, fmt.Errorf("the image of %s has no %s: run the data plane of this plugin's release, or see "+
			"docs/dev/benchmarks.md", nodeName(pod), benchProgram)
	}
	if err != nil {
		return perfResult{}, err
	}
	var result perfResult
	if output.status != 0 {
		return result, fmt.Errorf("%s %s on %s ended with status %d: %s", benchProgram, arguments[0], nodeName(pod), output.status,
			strings.TrimSpace(output.stderr))
	}
	if err := json.Unmarshal([]byte(output.stdout), &result); err != nil {
		return result, fmt.Errorf("%s %s on %s: %w: is its image of this plugin's release?", benchProgram, arguments[0],
			nodeName(pod), err)
	}
	return result, nil
}
