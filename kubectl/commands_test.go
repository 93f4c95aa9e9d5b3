// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/peercache/peercache/api/v1alpha1"
)

// fleetOfThree has two discovery hosts that agree except about a breaker, and a node that crashes.
func fleetOfThree() (*fakePods, []client.Object) {
	members := func(breaker string) string {
		return strings.Join([]string{
			healthy(memberJSON("node-a", "active", "closed", true), 0.1, "memory_elsewhere", "mlx5_1:1", 2, 1, 2000, 1850),
			healthy(memberJSON("node-b", "active", "closed", true), 0.2, "not_applicable", "", 0, 0, 0, 0),
			memberJSON("node-c", "active", breaker, breaker == "closed"),
		}, ",")
	}
	rails := `{"name": "mlx5_0:1", "up": true, "numa_node": 0, "read_bytes": 5497558138880, "queue_pair_failures": 0},
		{"name": "mlx5_1:1", "up": false, "waits_for": "port",
			"why": "mlx5_1 port 1: the port is DOWN (Disabled): check the cable and set ens2f0np0 up",
			"numa_node": -1, "read_bytes": 1024, "queue_pair_failures": 12}`
	disk := `, "disk": {"pages": 4000000, "capacity_bytes": 1073741824000, "used_bytes": 524288000000, "budget_left_bytes": 44739242666, "devices": [
		{"path": "/var/lib/peercache/disk0", "io": "aio (io_uring is not permitted)", "on": true, "why": "", "bytes": 536870912000, "recovered": true},
		{"path": "/var/lib/peercache/disk1", "io": "", "on": false, "why": "8 errors within a minute, the last: input/output error", "bytes": 0,
			"recovered": false}]}`
	// The cumulative hit ratio must come from lookups, not from pages read: every page that is read was found.
	before := `"lookups": {"looked_up_pages": 1000, "delivered_pages": 750, "delivered": {"tcp": {"pages": 250, "tokens": 16000}}},
		"counters": {"read_requests": 750, "read_local_hits": 500, "read_remote_hits": 250, "bytes_read": 1000, "write_stored": 10}` + disk
	after := `"lookups": {"looked_up_pages": 3000, "delivered_pages": 2600, "delivered": {"tcp": {"pages": 2100, "tokens": 134400},
			"local": {"pages": 500, "tokens": 0}}},
		"counters": {"read_requests": 2600, "read_local_hits": 500, "read_remote_hits": 2000, "read_shared_hits": 50, "read_replica_hits": 50,
		"bytes_read": 4294968296, "write_stored": 110, "bytes_written": 2097152, "served_pages": 5, "served_bytes": 1048576},
		"activity": {"evicted_per_second": 64}`
	pods := &fakePods{answers: map[string][]any{
		"kv-default-a /v1/status": {status("node-a", members("closed"), rails, before), status("node-a", members("closed"), rails, after)},
		"kv-default-b /v1/status": {status("node-b", members("open"), "", "")},
		"kv-default-a exec peercached status --config=/etc/peercache/peercached.toml": {execResult{stdout: status("node-a", members("closed"), rails, before)}},
		"kv-default-a exec peercached doctor --json --config=/etc/peercache/peercached.toml": {execResult{status: 2, stdout: `{"exit_code": 2,
			"findings": [{"grade": "ok", "subject": "memlock", "text": "unlimited"},
			{"grade": "fault", "subject": "mlx5_1 port 1", "text": "is down: plug in the cable, and switch the port on"},
			{"grade": "warning", "subject": "huge pages", "text": "0 of 2Mi pages are free: reserve 32768"}], "ports": []}`}},
		"kv-default-b exec peercached doctor --json --config=/etc/peercache/peercached.toml": {execResult{status: 1, stdout: `{"exit_code": 1,
			"findings": [{"grade": "warning", "subject": "huge pages", "text": "0 of 2Mi pages are free: reserve 32768"}]}`}},
	}}
	broken := set(
		is("Degraded", "True", "CrashLoopBackOff", "pod kv-default-c: it exits again and again, last exit code 1 (Error): see "+
			"kubectl logs --previous -n inference kv-default-c"),
		is("Ready", "False", "MembersBroken", "2/3 members are ready; pod kv-default-c: it exits again and again"),
	)
	kv := cluster("kv", broken, func(c *v1alpha1.PeerCacheCluster) {
		c.Status.ReadyMembers, c.Status.Groups[0].Ready, c.Status.Capacity = 2, 2, *c.Spec.Memory.Pool.ToDec()
		c.Status.Disk = &v1alpha1.DiskStatus{Capacity: resource.MustParse("1000Gi"), Used: resource.MustParse("500000Mi"), Off: 1, WriteBudgetSpent: ptr.To[int32](40)}
	})
	return pods, []client.Object{kv, nodePod("node-a", host, withDrives), nodePod("node-b", host), nodePod("node-c", crashing)}
}

// withDrives gives a pod a folder of its machine and a volume.
func withDrives(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "disk0", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/mnt/nvme0/peercache"}}},
		{Name: "disk1", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
	}
}

func TestCommands(t *testing.T) {
	for _, test := range []struct {
		name   string
		args   []string
		status int
	}{
		{"status", []string{"status"}, 0},
		{"status-json", []string{"status", "kv", "-o", "json"}, 0},
		{"members", []string{"members", "kv"}, 0},
		{"members-yaml", []string{"members", "kv", "-o", "yaml"}, 0},
		{"rails", []string{"rails", "kv"}, 0},
		{"disks", []string{"disks", "kv"}, 0},
		{"top", []string{"top", "kv"}, 0},
		{"doctor", []string{"doctor", "kv"}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			pods, objects := fleetOfThree()
			got := runCommand(t, pods, objects, test.args...)
			if got.status != test.status || got.stderr != "" {
				t.Errorf("status %d, want %d; stderr %q", got.status, test.status, got.stderr)
			}
			golden(t, test.name+".txt", got.stdout)
		})
	}
}

// TestJSON checks that every report is one JSON document, even where a node has failed.
func TestJSON(t *testing.T) {
	for _, command := range []string{"status", "members", "rails", "disks", "top", "doctor"} {
		pods, objects := fleetOfThree()
		got := runCommand(t, pods, objects, command, "-o", "json")
		var document struct {
			Clusters []struct {
				Namespace, Name string
			} `json:"clusters"`
		}
		if err := json.Unmarshal([]byte(got.stdout), &document); err != nil {
			t.Errorf("%s: %v\n%s", command, err, got.stdout)
		} else if len(document.Clusters) != 1 || document.Clusters[0].Name != "kv" || document.Clusters[0].Namespace != "inference" {
			t.Errorf("%s: %+v", command, document)
		}
	}
}

func TestDoctorIsContent(t *testing.T) {
	pods, objects := fleetOfThree()
	objects = []client.Object{cluster("kv"), objects[1], objects[2]}
	fine := execResult{stdout: `{"exit_code": 0, "findings": [{"grade": "ok", "subject": "memlock", "text": "unlimited"}]}`}
	warns := pods.answers["kv-default-b exec peercached doctor --json --config=/etc/peercache/peercached.toml"][0]
	for key := range pods.answers {
		if strings.Contains(key, "exec") {
			pods.answers[key] = []any{fine}
		}
	}
	if got := runCommand(t, pods, objects, "doctor"); got.status != 0 ||
		got.stdout != "inference/kv: nothing is wrong: checked the conditions and 2 members\n" {
		t.Errorf("%+v", got)
	}
	pods.answers["kv-default-b exec peercached doctor --json --config=/etc/peercache/peercached.toml"] = []any{warns}
	if got := runCommand(t, pods, objects, "doctor"); got.status != 0 || !strings.Contains(got.stdout, "warning  node-b.default  huge pages") {
		t.Errorf("a warning gives status %d:\n%s", got.status, got.stdout)
	}
	if got := runCommand(t, pods, objects, "doctor", "--fail-on", "warning"); got.status != 1 {
		t.Errorf("with --fail-on warning the status is %d", got.status)
	}
}

// TestDoctorNamesEngines checks that what injection has noted on SGLang pods is a warning, once for pods that say the same.
func TestDoctorNamesEngines(t *testing.T) {
	pods, objects := fleetOfThree()
	objects = []client.Object{cluster("kv"), objects[1], objects[2]}
	for key := range pods.answers {
		if strings.Contains(key, "exec") {
			pods.answers[key] = []any{execResult{stdout: `{"findings": []}`}}
		}
	}
	for name, asks := range map[string]string{"decode-0": "kv", "decode-1": "kv", "other": "elsewhere", "ended": "kv"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "inference", Name: name, Labels: map[string]string{v1alpha1.LabelInject: asks},
			Annotations: map[string]string{"peercache.io/partly": "kv", "peercache.io/inject-note": "do this"},
		}}
		if name == "ended" {
			pod.Status.Phase = corev1.PodSucceeded
		}
		objects = append(objects, pod)
	}
	got := runCommand(t, pods, objects, "doctor")
	if got.status != 0 || !strings.Contains(got.stdout, "0 faults, 1 warning;") || !strings.Contains(got.stdout, "warning  decode-0 +1  engine   do this\n") {
		t.Errorf("%+v", got)
	}
}

// TestDoctorNamesSlowPlaces checks that memory and drives that engines do better without are warnings.
func TestDoctorNamesSlowPlaces(t *testing.T) {
	pods := &fakePods{answers: map[string][]any{
		"kv-default-a /v1/status": {status("node-a", "", "", `"slower_than_computing": [
			{"member": "node-b.default", "tier": "memory", "bytes_per_second": 1562500}, {"member": "node-a.default", "tier": "disk", "bytes_per_second": 900}]`)},
		"kv-default-a exec peercached doctor --json --config=/etc/peercache/peercached.toml": {execResult{stdout: `{"findings": []}`}},
	}}
	got := runCommand(t, pods, []client.Object{cluster("kv"), nodePod("node-a", host)}, "doctor")
	if got.status != 0 || !strings.Contains(got.stdout, "0 faults, 2 warnings;") || !strings.Contains(got.stdout, "node-b.default has (memory)") ||
		!strings.Contains(got.stdout, "1.5MiB/s: measure") || !strings.Contains(got.stdout, "900B/s: see the drives") {
		t.Errorf("%+v", got)
	}
}

func TestDoctorWithoutFindings(t *testing.T) {
	for name, result := range map[string]any{
		"refused options": execResult{status: 2, stderr: "2026 error discovery-addr: 'x' has no port; see peercached --help\n"},
		"another image":   execResult{status: 0, stdout: "hello"},
	} {
		pods, objects := fleetOfThree()
		for key := range pods.answers {
			if strings.Contains(key, "exec") {
				pods.answers[key] = []any{result}
			}
		}
		got := runCommand(t, pods, objects, "doctor")
		if got.status != 1 || !strings.Contains(got.stdout, "node-a.default +1") ||
			!strings.Contains(got.stdout, "peercached doctor ended with status") {
			t.Errorf("%s: status %d\n%s", name, got.status, got.stdout)
		}
	}
}

// TestNextSteps checks that each state has a next step, and that causes come before their effects.
func TestNextSteps(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.PeerCacheCluster)
		want   []string
	}{
		"well": {set(), []string{"nothing; for traffic"}},
		"no operator": {func(c *v1alpha1.PeerCacheCluster) { c.Status = v1alpha1.PeerCacheClusterStatus{} },
			[]string{"the operator has not processed"}},
		"new change":    {func(c *v1alpha1.PeerCacheCluster) { c.Generation++ }, []string{"the operator has not processed"}},
		"only planned":  {func(c *v1alpha1.PeerCacheCluster) { c.Spec.Mode = v1alpha1.ModePlan }, []string{"mode: Plan creates nothing"}},
		"refused":       {set(is("ConfigAccepted", "False", "X", "m"), is("Ready", "False", "X", "m")), []string{"correct the spec"}},
		"no huge pages": {set(is("DevicesAvailable", "False", "X", "m"), is("Degraded", "True", "X", "m")), []string{"give the machines", "examine the broken"}},
		"starting":      {set(is("Progressing", "True", "X", "m"), is("Ready", "False", "X", "m")), []string{"wait: kubectl wait"}},
		"no webhook":    {set(is("InjectionReady", "False", "X", "m")), []string{"follow the message of InjectionReady"}},
		"something new": {set(is("RailsHealthy", "False", "X", "m")), []string{"follow the messages"}},
	} {
		got := makeStatus([]v1alpha1.PeerCacheCluster{*cluster("kv", test.change)}, noon).Clusters[0].Next
		if len(got) != len(test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], test.want[i]) {
				t.Errorf("%s: %q, want %q", name, got[i], test.want[i])
			}
		}
	}
}

// TestErrors checks that every error says what to do next.
func TestErrors(t *testing.T) {
	pods, objects := fleetOfThree()
	other := cluster("other")
	far := cluster("far")
	far.Namespace = "elsewhere"
	for name, test := range map[string]struct {
		objects []client.Object
		args    []string
		want    string
	}{
		"no cluster": {nil, []string{"status"}, "namespace inference has no PeerCacheCluster: name its namespace with -n, or use -A for all"},
		"none anywhere": {nil, []string{"status", "-A"},
			"there is no PeerCacheCluster: create one, as in config/samples/minimal.yaml"},
		"another name": {objects, []string{"top", "vk"}, "has no PeerCacheCluster vk; it has kv: write one of these names, or another namespace with -n"},
		"two names":    {objects, []string{"rails", "a", "b"}, "kubectl peercache rails takes one NAME, and there are 2"},
		"name and all": {objects, []string{"members", "kv", "-A"}, "exclude each other"},
		"format":       {objects, []string{"status", "-o", "xml"}, `"xml" is not a format: write json or yaml`},
		"flag":         {objects, []string{"status", "--nope"}, "see 'kubectl peercache status --help'"},
		"no pods":      {[]client.Object{other}, []string{"members"}, "inference/other has no pods: see kubectl peercache status other -n inference"},
		"bench of two": {[]client.Object{other, cluster("kv"), far}, []string{"bench", "-A"},
			"there are 3 PeerCacheClusters (elsewhere/far, inference/kv, inference/other): write the NAME"},
		"bench alone": {[]client.Object{cluster("kv"), nodePod("node-a")}, []string{"bench"}, "has 1 ready member to measure between, and two are needed"},
		"interval":    {objects, []string{"top", "--interval", "1ms"}, "too short"},
		"fail-on":     {objects, []string{"doctor", "--fail-on", "note"}, "write fault or warning"},
		"inject":      {objects, []string{"inject", "-f", "x"}, "add --dry-run"},
		"no file":     {objects, []string{"inject", "--dry-run"}, "write -f FILE"},
		"silent hosts": {[]client.Object{cluster("kv"), nodePod("node-d", host)}, []string{"members"},
			"no discovery host of inference/kv answers (kv-default-d /v1/status: connection refused): see kubectl peercache doctor kv -n inference"},
	} {
		t.Run(name, func(t *testing.T) {
			got := runCommand(t, pods, test.objects, test.args...)
			if got.status != 1 || !strings.HasPrefix(got.stderr, "error: ") || !strings.Contains(got.stderr, test.want) {
				t.Errorf("status %d, stderr %q, want %q", got.status, got.stderr, test.want)
			}
		})
	}
}

func TestUnits(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 512: "512", 1023: "1Ki", 1024: "1Ki", 1536: "1.5Ki", 10 << 20: "10Mi", 1000 << 20: "1Gi", 64 << 30: "64Gi", 1<<63 - 1: "8Ei",
	} {
		if got := size(n); got != want {
			t.Errorf("size(%d) is %s, want %s", n, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 0.25: "0.2", 999: "999", 999.7: "1k", 1500: "1.5k", 12_345: "12k", 64e6: "64M"} {
		if got := count(n); got != want {
			t.Errorf("count(%g) is %s, want %s", n, got, want)
		}
	}
	for share, want := range map[float64]string{0: "0%", 1: "100%", 0.99999: "99.9%", 0.00001: "0.1%", 0.5: "50%", 0.123: "12.3%"} {
		if got := percent(share, 1); got != want {
			t.Errorf("percent(%g) is %s, want %s", share, got, want)
		}
	}
}

// TestMembersKeepLatestHealth checks that the youngest health counts where several hosts know one.
func TestMembersKeepLatestHealth(t *testing.T) {
	pods, objects := fleetOfThree()
	member := memberJSON("node-a", "active", "closed", true)
	said := func(age float64, reads int) string { return healthy(member, age, "aligned", "", 2, 2, reads, 0) }
	pods.answers["kv-default-a /v1/status"] = []any{status("node-a", said(3.5, 1), "", "")}
	for age, want := range map[float64]float64{0.5: 2, 9: 1} {
		pods.answers["kv-default-b /v1/status"] = []any{status("node-b", said(age, 2), "", "")}
		got := runCommand(t, pods, objects, "members", "-o", "json")
		var document struct {
			Clusters []struct {
				Members []struct{ Health map[string]any }
			}
		}
		if err := json.Unmarshal([]byte(got.stdout), &document); err != nil {
			t.Fatalf("%v\n%s", err, got.stdout)
		}
		if health := document.Clusters[0].Members[0].Health; health["recentLookedUp"] != want || health["railsUp"] != 2.0 {
			t.Errorf("with %g s beside 3.5 s: %v, want %g reads", age, health, want)
		}
	}
}

// TestDoctorNamesMembersThatReadOverTCP checks the line of a member with rails that reads over TCP, which no condition names.
func TestDoctorNamesMembersThatReadOverTCP(t *testing.T) {
	for name, test := range map[string]struct {
		transport v1alpha1.Transport
		activity  string
		faults    string
	}{
		"over TCP":               {v1alpha1.TransportRDMA, `{"delivered": {"tcp": 600, "rdma": 400}}`, "node-a.default  transport"},
		"a few":                  {v1alpha1.TransportRDMA, `{"delivered": {"tcp": 6, "rdma": 994}}`, ""},
		"an older node":          {v1alpha1.TransportRDMA, `null`, ""},
		"TCP is what is wanted":  {v1alpha1.TransportTCP, `{"delivered": {"tcp": 1000}}`, ""},
		"nothing is read lately": {v1alpha1.TransportRDMA, `{"delivered": {"tcp": 3}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kv := cluster("kv", func(c *v1alpha1.PeerCacheCluster) {
				c.Spec.Transport, c.Spec.Rails = test.transport, []v1alpha1.Rail{{Name: "rail0"}}
			})
			said := strings.Replace(status("node-a", "", "", ""), `"pool"`, `"activity": `+test.activity+`, "pool"`, 1)
			pods := &fakePods{answers: map[string][]any{
				"kv-default-a /v1/status":             {said},
				"kv-default-a exec peercached doctor": {execResult{stdout: `{"findings": []}`}},
			}}
			got := runCommand(t, pods, []client.Object{kv, nodePod("node-a")}, "doctor", "kv")
			if failed := got.status != 0; failed != (test.faults != "") || !strings.Contains(got.stdout, test.faults) {
				t.Errorf("status %d, stderr %q:\n%s", got.status, got.stderr, got.stdout)
			}
		})
	}
}
