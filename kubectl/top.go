// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/peercache/peercache/api/v1alpha1"
	"github.com/peercache/peercache/operator/fleet"
)

// maxLifetime bounds the estimate in seconds: a year.
const maxLifetime = 365 * 86400

func (p *plugin) topCommand() *cobra.Command {
	var out format
	var watch bool
	interval := 2 * time.Second
	command := &cobra.Command{
		Use:     "top [NAME]",
		GroupID: groupShow,
		Short:   "Show hit ratio, tokens and bytes per second, and how long pages stay",
		Example: "  kubectl peercache top kv -n inference --watch",
		Args:    atMostOneName,
		RunE: func(command *cobra.Command, names []string) error {
			if interval < 100*time.Millisecond {
				return fmt.Errorf("--interval is %s, which is too short to count anything: write 2s", interval)
			}
			return p.top(command.Context(), names, &out, interval, watch)
		},
	}
	out.addTo(command)
	command.Flags().BoolVarP(&watch, "watch", "w", false, "repeat until Ctrl-C")
	command.Flags().DurationVar(&interval, "interval", interval, "time between the two samples that rates come from")
	return command
}

// top keeps the last sample of every cluster, so that each round of --watch takes only one.
func (p *plugin) top(ctx context.Context, names []string, out *format, interval time.Duration, watch bool) error {
	last := map[identity]map[string]answer{}
	round := func(
		ctx context.Context, a *access, cluster *v1alpha1.PeerCacheCluster, pods []*corev1.Pod,
	) (clusterReport, error) {
		name := identityOf(cluster)
		before, sampled := last[name]
		if !sampled {
			before = byNode(p.ask(ctx, a, cluster, pods))
			if err := p.sleep(ctx, interval); err != nil {
				return nil, err
			}
		}
		after := p.ask(ctx, a, cluster, pods)
		last[name] = byNode(after)
		return makeTop(name, before, after)
	}
	for first := true; ; first = false {
		err := p.forClusters(ctx, names, out, round)
		if !watch || err != nil && first {
			return err
		}
		if err != nil {
			_, _ = fmt.Fprintln(p.ErrOut, "error:", err)
		}
		if err := p.sleep(ctx, interval); err != nil {
			return nil //nolint:nilerr // Ctrl-C ends --watch
		}
		if *out == "" {
			_, _ = fmt.Fprintln(p.Out)
		}
	}
}

func byNode(answers []answer) map[string]answer {
	nodes := map[string]answer{}
	for _, got := range answers {
		nodes[nodeName(got.pod)] = got
	}
	return nodes
}

type topReport struct {
	identity
	Nodes []nodeTop `json:"members"`
	Total nodeTop   `json:"total"`
}

type nodeTop struct {
	Node         string `json:"member,omitempty"`
	PoolUsed     uint64 `json:"poolUsedBytes"`
	PoolCapacity uint64 `json:"poolCapacityBytes"`
	PoolPages    uint64 `json:"poolPages"`
	Engines      int    `json:"engines"`
	// Asked and Hits are the pages that engines looked up and got since the previous sample. AskedEver and HitsEver count
	// since the start of the node.
	Hits      float64 `json:"hits"`
	Asked     float64 `json:"asked"`
	HitsEver  float64 `json:"hitsEver"`
	AskedEver float64 `json:"askedEver"`
	// The rates are per second, since the previous sample.
	PagesRead    float64 `json:"pagesReadPerSecond"`
	TokensRead   float64 `json:"tokensReadPerSecond"`
	BytesRead    float64 `json:"bytesReadPerSecond"`
	PagesWritten float64 `json:"pagesWrittenPerSecond"`
	BytesWritten float64 `json:"bytesWrittenPerSecond"`
	BytesServed  float64 `json:"bytesServedPerSecond"`
	// PagesEvicted is of the last ten seconds or so.
	PagesEvicted float64 `json:"pagesEvictedPerSecond"`
	// PageLifetime is how long a page stays in pools that evict, at their present rate, in seconds. It is null where none evicts.
	PageLifetime *float64 `json:"pageLifetimeSeconds"`
	// evicting counts the pages of pools that evict.
	evicting uint64
	// Error is why the row has no figures.
	Error string `json:"error,omitempty"`
}

func makeTop(name identity, before map[string]answer, after []answer) (clusterReport, error) {
	r := &topReport{identity: name}
	answered := 0
	for _, got := range after {
		row := nodeTop{Node: nodeName(got.pod)}
		if got.err != nil {
			row.Error = got.err.Error()
		} else {
			answered++
			row.measure(before[row.Node], got)
			r.Total.add(row)
		}
		row.estimateLifetime()
		r.Nodes = append(r.Nodes, row)
	}
	r.Total.estimateLifetime()
	if answered == 0 {
		return nil, fmt.Errorf("no member of %s answers: see kubectl peercache doctor %s", name, name.arguments())
	}
	return r, nil
}

// measure sets the rates between two samples. After a restart of the node, its counters begin at 0 and give no rates.
func (t *nodeTop) measure(before, after answer) {
	now := after.status
	t.PoolUsed, t.PoolCapacity, t.Engines = now.Pool.UsedBytes, now.Pool.CapacityBytes, len(now.Engines)
	t.PoolPages = now.Pool.Pages
	if now.Activity != nil && now.Activity.EvictedPerSecond > 0 {
		t.PagesEvicted, t.evicting = now.Activity.EvictedPerSecond, now.Pool.Pages
	}
	t.HitsEver, t.AskedEver = float64(now.Lookups.DeliveredPages), float64(now.Lookups.LookedUpPages)
	seconds := after.at.Sub(before.at).Seconds()
	if before.err != nil || before.pod == nil || seconds <= 0 ||
		before.status.Node.Incarnation != now.Node.Incarnation {
		return
	}
	since := func(of func(fleet.Counters) uint64) float64 {
		return max(0, float64(of(now.Counters))-float64(of(before.status.Counters)))
	}
	looked := func(of func(fleet.Lookups) uint64) float64 {
		return max(0, float64(of(now.Lookups))-float64(of(before.status.Lookups)))
	}
	t.Hits = looked(func(l fleet.Lookups) uint64 { return l.DeliveredPages })
	t.Asked = looked(func(l fleet.Lookups) uint64 { return l.LookedUpPages })
	t.TokensRead = looked(fleet.Lookups.DeliveredTokens) / seconds
	t.PagesRead = since(fleet.Counters.Hits) / seconds
	t.BytesRead = since(func(c fleet.Counters) uint64 { return c.BytesRead }) / seconds
	t.PagesWritten = since(func(c fleet.Counters) uint64 { return c.WriteStored }) / seconds
	t.BytesWritten = since(func(c fleet.Counters) uint64 { return c.BytesWritten }) / seconds
	t.BytesServed = since(func(c fleet.Counters) uint64 { return c.ServedBytes }) / seconds
}

func (t *nodeTop) add(o nodeTop) {
	t.PoolUsed += o.PoolUsed
	t.PoolCapacity += o.PoolCapacity
	t.PoolPages += o.PoolPages
	t.PagesEvicted += o.PagesEvicted
	t.evicting += o.evicting
	t.Engines += o.Engines
	t.Hits += o.Hits
	t.Asked += o.Asked
	t.HitsEver += o.HitsEver
	t.AskedEver += o.AskedEver
	t.PagesRead += o.PagesRead
	t.TokensRead += o.TokensRead
	t.BytesRead += o.BytesRead
	t.PagesWritten += o.PagesWritten
	t.BytesWritten += o.BytesWritten
	t.BytesServed += o.BytesServed
}

func (t *nodeTop) estimateLifetime() {
	if t.PagesEvicted > 0 {
		t.PageLifetime = new(float64(t.evicting) / t.PagesEvicted)
	}
}

// lifetime is empty where no page is evicted.
func (t *nodeTop) lifetime() string {
	if t.PageLifetime == nil {
		return ""
	}
	return duration.HumanDuration(time.Duration(min(*t.PageLifetime, maxLifetime) * float64(time.Second)))
}

// tokens is empty where engines get pages and do not give the number of their tokens.
func (t *nodeTop) tokens() string {
	if t.TokensRead == 0 && t.Hits > 0 {
		return ""
	}
	return count(t.TokensRead)
}

// ratio is empty where nothing was looked up.
func ratio(part, whole float64) string {
	if whole == 0 {
		return ""
	}
	return percent(part, whole)
}

func (r *topReport) text(w io.Writer) {
	t := newTable("MEMBER", "ENGINES", "POOL", "USED", "PAGES STAY", "HITS", "HITS EVER", "TOKENS/S", "READ B/S", "SET B/S",
		"SERVED B/S", "NOTE").numbers(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	row := func(name string, n nodeTop) {
		if n.Error != "" {
			t.add(name, "", "", "", "", "", "", "", "", "", "", n.Error)
			return
		}
		t.add(name, strconv.Itoa(n.Engines), size(n.PoolCapacity), ratio(float64(n.PoolUsed), float64(n.PoolCapacity)),
			n.lifetime(), ratio(n.Hits, n.Asked), ratio(n.HitsEver, n.AskedEver), n.tokens(), size(n.BytesRead),
			size(n.BytesWritten), size(n.BytesServed), "")
	}
	for _, node := range r.Nodes {
		row(node.Node, node)
	}
	row("total", r.Total)
	_, _ = fmt.Fprintf(w, "%s: %s\n\n", r.identity, plural(len(r.Nodes), "member"))
	t.write(w)
}
