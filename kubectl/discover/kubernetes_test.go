// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/peercache/peercache/operator/machine"
)

func TestParseNetwork(t *testing.T) {
	const routed = `"routes": [{"dst": "10.1.0.0/16", "gw": "10.1.4.1"}, {"dst": "10.2.0.0/16"}]`
	subnet := netip.MustParsePrefix("10.1.4.0/24")
	routes := []machine.Route{{Destination: netip.MustParsePrefix("10.1.0.0/16"), Gateway: netip.MustParseAddr("10.1.4.1")}}
	for name, test := range map[string]struct {
		resource, config string
		want             *Network // nil where it attaches no functions
	}{
		"whereabouts":           {"a/b", `{"type": "sriov", "ipam": {"range": "10.1.4.0/24", ` + routed + `}}`, &Network{"n/x", "a/b", subnet, routes}},
		"a part of a subnet":    {"a/b", `{"type": "sriov", "ipam": {"range": "10.1.4.64-10.1.4.99/24"}}`, &Network{"n/x", "a/b", subnet, nil}},
		"several ranges":        {"a/b", `{"type": "ib-sriov", "ipam": {"ipRanges": [{"range": "10.1.4.0/24"}]}}`, &Network{"n/x", "a/b", subnet, nil}},
		"host-local":            {"a/b", `{"type": "sriov", "ipam": {"ranges": [[{"subnet": "10.1.4.0/24"}]]}}`, &Network{"n/x", "a/b", subnet, nil}},
		"host-local, one":       {"a/b", `{"type": "host-device", "ipam": {"subnet": "10.1.4.7/24"}}`, &Network{"n/x", "a/b", subnet, nil}},
		"a chain":               {"a/b", `{"plugins": [{"type": "sriov", "ipam": {"type": "nv-ipam"}}, {"type": "tuning"}]}`, &Network{Name: "n/x", Resource: "a/b"}},
		"of no resource":        {"", `{"type": "sriov"}`, nil},
		"of the port":           {"a/b", `{"type": "macvlan"}`, nil},
		"no configuration":      {"a/b", ``, nil},
		"another configuration": {"a/b", `{"type": "sriov", "ipam": {"ranges": "here"}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, is := ParseNetwork("n/x", test.resource, test.config)
			if is != (test.want != nil) || is && !reflect.DeepEqual(got, *test.want) {
				t.Errorf("got %+v, %t, want %+v", got, is, test.want)
			}
		})
	}
}

func TestParsePools(t *testing.T) {
	got, err := ParsePluginConfig(`{"resourceList": [
		{"resourceName": "a", "resourcePrefix": "x.io", "selectors": [{"pfNames": ["ens1f0np0#0-3"], "isRdma": true}, {"rootDevices": ["0000:18:00.0"], "isRdma": true}]},
		{"resourceName": "b", "selectors": {"pfNames": ["ens2f0np0"]}}]}`)
	want := []Pool{{"x.io/a", []string{"ens1f0np0", "0000:18:00.0"}, true}, {"b", []string{"ens2f0np0"}, false}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, wrong := range []string{`[`, `{"resourceList": [{"resourceName": "a", "selectors": 7}]}`} {
		if _, err := ParsePluginConfig(wrong); err == nil || !strings.Contains(err.Error(), "SR-IOV network device plugin") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	policy, err := ParsePolicy([]byte(`{"resourceName": "a", "isRdma": true, "nicSelector": {"pfNames": ["ens1f0np0"], "vendor": "15b3"}}`))
	if want := (Pool{"a", []string{"ens1f0np0"}, true}); err != nil || !reflect.DeepEqual(policy, want) {
		t.Errorf("got %+v, %v, want %+v", policy, err, want)
	}
	if _, err := ParsePolicy([]byte(`7`)); err == nil {
		t.Error("a number is no policy")
	}
}
