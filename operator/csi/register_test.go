// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// TestRegistration does what the kubelet does when it finds the registration socket.
func TestRegistration(t *testing.T) {
	m := startMachine(t)
	kubelet := m.registry(t)
	info, err := kubelet.GetInfo(within(t), &registration.InfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if info.GetType() != "CSIPlugin" || info.GetName() != "csi.peercache.io" || info.GetEndpoint() != m.csiSocket() ||
		len(info.GetSupportedVersions()) != 1 || info.GetSupportedVersions()[0] != "1.0.0" {
		t.Errorf("registered is %v", info)
	}
	connection := dial(t, info.GetEndpoint())
	who, err := csispec.NewNodeClient(connection).NodeGetInfo(within(t), &csispec.NodeGetInfoRequest{})
	if err != nil || who.GetNodeId() != "machine-a" {
		t.Errorf("the node is %v, error %v", who, err)
	}
	plugin, err := csispec.NewIdentityClient(connection).GetPluginInfo(within(t), &csispec.GetPluginInfoRequest{})
	if err != nil || plugin.GetName() != info.GetName() {
		t.Errorf("the plugin is %v, error %v", plugin, err)
	}
	if err := check(t.Context(), m.options); err == nil || !strings.Contains(err.Error(), "has not registered csi.peercache.io yet") {
		t.Errorf("before its registration: %v", err)
	}
	if _, err := kubelet.NotifyRegistrationStatus(within(t), &registration.RegistrationStatus{PluginRegistered: true}); err != nil {
		t.Fatal(err)
	}
	if err := check(t.Context(), m.options); err != nil {
		t.Errorf("after its registration: %v", err)
	}
	for _, path := range []string{m.csiSocket(), m.registrationSocket()} {
		if about, err := os.Stat(path); err != nil || about.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, error %v", path, about.Mode(), err)
		}
	}
}

// TestRegistrationRefused checks that the driver exits, so that it registers again after its restart.
func TestRegistrationRefused(t *testing.T) {
	m := startMachine(t)
	// The driver may exit before it answers.
	_, _ = m.registry(t).NotifyRegistrationStatus(within(t), &registration.RegistrationStatus{Error: "a reason"})
	select {
	case err := <-m.ended:
		if err == nil || !strings.Contains(err.Error(), "a reason") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(answerWithin):
		t.Error("it goes on")
	}
}

// TestLeftoverSockets checks that the sockets of a killed process are replaced.
func TestLeftoverSockets(t *testing.T) {
	m := startMachine(t)
	m.registry(t)
	path := m.csiSocket()
	if _, err := m.node(t).NodeGetInfo(within(t), &csispec.NodeGetInfoRequest{}); err != nil {
		t.Fatal(err)
	}
	listener, err := listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
}
