// SPDX-License-Identifier: Apache-2.0

// Package plugin_test has the configuration that the operator renders read by the package of k8s-rdma-shared-dev-plugin that
// reads it on machines. A module of its own keeps that package out of the operator's.
package plugin_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/Mellanox/k8s-rdma-shared-dev-plugin/pkg/resources"
	"github.com/Mellanox/k8s-rdma-shared-dev-plugin/pkg/types"
)

// rendered is what TestDevicePluginConfiguration of operator/plan compares with what the operator makes.
const rendered = "../../../../../operator/plan/testdata/device-plugin.json"

// port is one that a machine may have.
type port struct {
	types.PciNetDevice           // of which selectors ask no more than the following
	name, vendor, device, driver string
}

func (p port) GetIfName() string   { return p.name }
func (p port) GetVendor() string   { return p.vendor }
func (p port) GetDeviceID() string { return p.device }
func (p port) GetDriver() string   { return p.driver }

// accept does what the plug-in's main function does with its file before it looks at the machine.
func accept(file string) (types.ResourceManager, error) {
	manager := resources.NewResourceManager(file, false)
	if err := manager.ReadConfig(); err != nil {
		return nil, err
	}
	return manager, manager.ValidateConfigs()
}

func read(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(rendered)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAccepted(t *testing.T) {
	manager, err := accept(rendered)
	if err != nil {
		t.Fatal(err)
	}
	config := types.UserConfigList{}
	decoder := json.NewDecoder(bytes.NewReader(read(t)))
	decoder.DisallowUnknownFields() // one that the plug-in does not know would be ignored by it
	if err := decoder.Decode(&config); err != nil {
		t.Fatal(err)
	}
	if config.PeriodicUpdateInterval == nil || *config.PeriodicUpdateInterval != 60 {
		t.Errorf("it looks for ports every %v seconds, want 60", config.PeriodicUpdateInterval)
	}
	ports := []types.PciNetDevice{
		port{name: "ens1f0np0", vendor: "15b3", device: "1021", driver: "mlx5_core"},
		port{name: "ens2f0np0", vendor: "15b3", device: "1021", driver: "mlx5_core"},
		port{name: "ens3f0np0", vendor: "15b3", device: "1017", driver: "mlx5_core"},
		port{name: "eno1", vendor: "8086", device: "1021", driver: "ice"},
	}
	wants := []struct {
		resource string
		shares   int
		ports    []string
	}{
		{"rdma/rail_0", 63, []string{"ens1f0np0"}},
		{"example.com/rail_1", 7, []string{"ens1f0np0", "ens2f0np0"}},
	}
	if len(config.ConfigList) != len(wants) {
		t.Fatalf("the plug-in sees %+v", config.ConfigList)
	}
	for i, want := range wants {
		got := config.ConfigList[i]
		var chosen []string
		for _, p := range manager.GetFilteredDevices(ports, &got.Selectors) {
			chosen = append(chosen, p.GetIfName())
		}
		if got.ResourcePrefix+"/"+got.ResourceName != want.resource || got.RdmaHcaMax != want.shares || !slices.Equal(chosen, want.ports) {
			t.Errorf("the plug-in sees %+v and chooses %v, want %+v", got, chosen, want)
		}
	}
}

// TestRefused: what makes the plug-in refuse a file is what the definition of PeerCacheCluster, or the operator, refuses.
func TestRefused(t *testing.T) {
	for change, want := range map[[2]string]string{
		{`"rail_0"`, `"rail-0"`}:                            "invalid characters",
		{`"rail_0"`, `"rail_1"`}:                            "already exists",
		{`"rdmaHcaMax": 7`, `"rdmaHcaMax": -1`}:             "rdmaHcaMax",
		{`"ifNames"`, `"interfaces"`}:                       "selectors",
		{`Interval": 60`, `Interval": "60"`}:                "cannot unmarshal",
		{`"configList": [`, `"configList": [], "other": [`}: "no resources",
	} {
		text := strings.Replace(string(read(t)), change[0], change[1], 1)
		file := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := accept(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q in it", change, err, want)
		}
	}
}
