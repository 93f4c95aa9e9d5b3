// dra-driver stands for DraNet on machines without RDMA: a driver of dynamic resource allocation under that name, with the
// same attributes for ports. The ports are those of the command line; what the pod gets of one is a device node,
// /dev/ports/NAME, which nothing but its claim puts there.
//
//	dra-driver rail0=0 rail1=1    NAME=NUMA-NODE of each port of this machine
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const driverName = "dra.net"

func main() {
	log.SetFlags(0)
	if err := run(context.Background(), os.Getenv("NODE_NAME"), os.Args[1:]); err != nil {
		log.Fatal("dra-driver: ", err)
	}
}

// run serves the kubelet and keeps the machine's ResourceSlice until it is told to end.
func run(ctx context.Context, machine string, args []string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	devices, err := ports(args)
	if err != nil {
		return err
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	folder := kubeletplugin.KubeletPluginsDir + "/" + driverName
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("making the folder of the socket: %w", err)
	}
	helper, err := kubeletplugin.Start(ctx, driver{}, kubeletplugin.DriverName(driverName),
		kubeletplugin.NodeName(machine), kubeletplugin.KubeClient(client))
	if err != nil {
		return fmt.Errorf("serving the kubelet: %w", err)
	}
	defer helper.Stop()
	if err := helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		machine: {Slices: []resourceslice.Slice{{Devices: devices}}},
	}}); err != nil {
		return fmt.Errorf("publishing the ports: %w", err)
	}
	log.Printf("%d ports", len(devices))
	<-ctx.Done()
	return nil
}

// ports reads NAME=NUMA-NODE.
func ports(args []string) ([]resourcev1.Device, error) {
	if len(args) == 0 {
		return nil, errors.New("no port is named: write NAME=NUMA-NODE for each, for example rail0=0")
	}
	devices := make([]resourcev1.Device, 0, len(args))
	for _, arg := range args {
		name, number, _ := strings.Cut(arg, "=")
		node, err := strconv.ParseInt(number, 10, 64)
		if err != nil || name == "" {
			return nil, fmt.Errorf("port %q: write NAME=NUMA-NODE, for example rail0=0", arg)
		}
		devices = append(devices, resourcev1.Device{
			Name: name,
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"rdma": {BoolValue: new(true)}, "numaNode": {IntValue: &node},
			},
		})
	}
	return devices, nil
}
