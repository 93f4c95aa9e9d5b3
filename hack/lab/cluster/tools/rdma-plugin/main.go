// rdma-plugin stands for k8s-rdma-shared-dev-plugin on machines without RDMA: it reads that program's configuration and
// offers the same resources to the kubelet for ports that exist, but hands out no device. The real one ends at once
// where the kernel has no RDMA.
//
// With "numaNode" in a resource it stands for the SR-IOV network device plug-in, which tells the kubelet the NUMA node of
// each device; k8s-rdma-shared-dev-plugin tells none.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const configFile = "/k8s-rdma-shared-dev-plugin/config.json"

// resource is an element of the configuration, as far as this program heeds it.
type resource struct {
	Name      string `json:"resourceName"`
	Prefix    string `json:"resourcePrefix"`
	Shares    int    `json:"rdmaHcaMax"`
	NUMANode  *int64 `json:"numaNode"`
	Selectors struct {
		Interfaces []string `json:"ifNames"`
	} `json:"selectors"`
}

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal("rdma-plugin: ", err)
	}
}

func run(ctx context.Context) error {
	text, err := os.ReadFile(configFile)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	var config struct {
		Resources []resource `json:"configList"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("%s: %w", configFile, err)
	}
	if len(config.Resources) == 0 {
		return fmt.Errorf("%s: configList is empty", configFile)
	}
	ended := make(chan error)
	for _, r := range config.Resources {
		go func() { ended <- r.serve(ctx) }()
	}
	return <-ended
}

// serve offers the resource for as long as the process lives.
func (r resource) serve(ctx context.Context) error {
	folder := v1beta1.DevicePluginPath
	socket := filepath.Join(folder, r.Prefix+"-"+r.Name+".sock")
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the socket of an earlier run: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := grpc.NewServer()
	v1beta1.RegisterDevicePluginServer(server, plugin{devices: r.devices()})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()

	kubelet, err := grpc.NewClient("unix://"+v1beta1.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connecting to the kubelet: %w", err)
	}
	name := r.Prefix + "/" + r.Name
	if _, err := v1beta1.NewRegistrationClient(kubelet).Register(ctx, &v1beta1.RegisterRequest{
		Version: v1beta1.Version, Endpoint: filepath.Base(socket), ResourceName: name,
		Options: &v1beta1.DevicePluginOptions{},
	}); err != nil {
		return fmt.Errorf("registering %s with the kubelet: %w", name, err)
	}
	log.Printf("%s: %d devices, for ports %s", name, len(r.devices()), strings.Join(r.Selectors.Interfaces, ", "))
	return <-ended
}

// devices are as many as there are shares, when one of the ports exists.
func (r resource) devices() (list []*v1beta1.Device) {
	var near *v1beta1.TopologyInfo
	if r.NUMANode != nil {
		near = &v1beta1.TopologyInfo{Nodes: []*v1beta1.NUMANode{{ID: *r.NUMANode}}}
	}
	for _, name := range r.Selectors.Interfaces {
		if _, err := net.InterfaceByName(name); err != nil {
			continue
		}
		for i := range r.Shares {
			list = append(list, &v1beta1.Device{ID: fmt.Sprint(i), Health: v1beta1.Healthy, Topology: near})
		}
		return list
	}
	return nil
}

type plugin struct {
	v1beta1.UnimplementedDevicePluginServer
	devices []*v1beta1.Device
}

func (plugin) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{}, nil
}

// ListAndWatch tells the devices once: here none comes or goes.
func (p plugin) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	if err := stream.Send(&v1beta1.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return fmt.Errorf("telling the kubelet of devices: %w", err)
	}
	<-stream.Context().Done()
	return nil
}

func (plugin) Allocate(_ context.Context, asked *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	answer := &v1beta1.AllocateResponse{}
	for range asked.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &v1beta1.ContainerAllocateResponse{})
	}
	return answer, nil
}
