// SPDX-License-Identifier: Apache-2.0

package dashboards

// SGLang and vLLM count the time to first token themselves. The rules of the operator join it with the pods that it knows to be
// connected to the cluster, by namespace and pod.
const (
	ttft        = `{__name__=~"(sglang|vllm):time_to_first_token_seconds_`
	ofConnected = ` * on (namespace, pod) group_left (group) peercache:compared_pod:info{cluster_namespace="$namespace",cluster="$cluster"})`
	needsTTFT   = " It needs the operator's rules, and engines that Prometheus scrapes with the labels namespace and pod."
)

var engines = board{"engines", "engines", []panel{
	{
		title: "Time to first token, mean", kind: timeSeries, unit: seconds,
		about: "As SGLang and vLLM count it themselves: of pods with the cache, and of those that a holdout keeps without." + needsTTFT,
		queries: []query{
			{`peercache:ttft_seconds:mean10m{%s}`, "{{group}}"}},
	},
	{
		title: "Time to first token, 90th percentile", kind: timeSeries, unit: seconds,
		about:   "As SGLang and vLLM count it themselves: of pods with the cache, and of those that a holdout keeps without." + needsTTFT,
		queries: []query{{`peercache:ttft_seconds:p90_10m{%s}`, "{{group}}"}},
	},
	{
		title: "Time to first token, the ten slowest pods", kind: timeSeries, unit: seconds,
		about: "Mean of each engine pod over ten minutes. A pod that is slower than its peers is overloaded, or reads over a slow path." + needsTTFT,
		queries: []query{
			{`topk(10, sum by (namespace, pod, group) (rate(` + ttft + `sum"}[10m])` + ofConnected +
				` / sum by (namespace, pod, group) (rate(` + ttft + `count"}[10m])` + ofConnected + `)`, "{{namespace}}/{{pod}} {{group}}"}},
	},
	{
		title: "Requests of ten minutes", kind: timeSeries, unit: number,
		about:   "Requests behind the panels of the time to first token. With fewer than a thousand in a group, chance alone makes a difference of 9 %.",
		queries: []query{{`peercache:ttft_requests:increase10m{%s}`, "{{group}}"}},
	},
	{
		title: "Engines attached", kind: timeSeries, unit: number,
		about:   "Engines that each member serves: one for each rank. Fewer than ranks on the node means that some run without the cache.",
		queries: []query{{`sum by (node) (peercache_engines{%s})`, "{{node}}"}},
	},
	{
		title: "Pages looked up, delivered and stored", kind: timeSeries, unit: perSecond,
		about: "Pages per second of all engines. Engines that look up and store nothing are idle, or not connected.",
		queries: []query{
			{`sum by (op) (rate(peercache_lookup_pages_total{%s}[5m]))`, "looked up: {{op}}"},
			{`sum (rate(peercache_delivered_pages_total{%s}[5m]))`, "delivered"},
			{`sum (rate(peercache_write_requests_total{%s}[5m]))`, "written"}},
	},
	{
		title: "Time of a call, 99th percentile", kind: timeSeries, unit: seconds, marks: above(1),
		about: "Time of one call of an engine, by operation. It is bounded by peer-timeout-ms (1 s) and the size of the call.",
		queries: []query{
			{`histogram_quantile(0.99, sum by (op, le) (rate(peercache_op_latency_seconds_bucket{%s}[5m])))`, "{{op}}"}},
	},
	{
		title: "Time of a get by stage, 99th percentile", kind: timeSeries, unit: seconds,
		about: "Where gets spend their time. read: the network or the holders; lookup: the homes of keys.",
		queries: []query{
			{`histogram_quantile(0.99, sum by (stage, le) (rate(peercache_stage_latency_seconds_bucket{%s,op="get"}[5m])))`, "{{stage}}"}},
	},
	{
		title: "Time of a set by stage, 99th percentile", kind: timeSeries, unit: seconds,
		about: "Where sets spend their time. reserve: the pool is full; publish: the homes of keys.",
		queries: []query{
			{`histogram_quantile(0.99, sum by (stage, le) (rate(peercache_stage_latency_seconds_bucket{%s,op="set"}[5m])))`, "{{stage}}"}},
	},
	{
		title: "Pages skipped, because computing them is faster", kind: timeSeries, unit: share, marks: above(0.1),
		alerts: []string{"PeerCacheSlowerThanCompute"},
		about:  "Share of the found pages that a slow network or drive would bring later than the engine computes them.",
		queries: []query{
			{`sum by (node) (rate(peercache_slower_pages_total{%s}[15m])) / (sum by (node) (rate(peercache_slower_pages_total{%s}[15m]))` +
				` + sum by (node) (rate(peercache_exists_pages_found_total{%s}[15m])))`, "{{node}}"}},
	},
	{
		title: "Bypassed members", kind: timeSeries, unit: number, alerts: []string{"PeerCacheBypassed"},
		about:   "A line for each member whose cache is bypassed: its engines compute everything. No data is good.",
		queries: []query{{`peercache_bypassed{%s} == 1`, "{{node}} {{peercache_io_group}}"}},
	},
	{
		title: "Refused engines and calls that waited", kind: timeSeries, unit: perSecond,
		about: "Engines per second that a member does not serve, by reason, and calls that waited for others of their engine.",
		queries: []query{
			{`sum by (reason) (rate(peercache_engine_refused_total{%s}[5m]))`, "refused: {{reason}}"},
			{`sum (rate(peercache_engine_calls_waited_total{%s}[5m]))`, "waited"}},
	},
}}
