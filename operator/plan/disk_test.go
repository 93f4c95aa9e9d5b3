// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/peercache/peercache/api/v1alpha1"
)

// onDisk is spec.disk with the defaults of the API server.
func onDisk(folders ...v1alpha1.DiskFolder) func(*v1alpha1.PeerCacheClusterSpec) {
	return func(s *v1alpha1.PeerCacheClusterSpec) {
		s.Disk = &v1alpha1.DiskSpec{HostPath: folders, Size: resource.MustParse("500Gi"), WriteBudget: "1", IO: v1alpha1.DiskIOAuto}
	}
}

func onVolumes(count int32) func(*v1alpha1.PeerCacheClusterSpec) {
	return func(s *v1alpha1.PeerCacheClusterSpec) {
		onDisk()(s)
		s.Disk.VolumeClaim = &v1alpha1.DiskClaim{StorageClassName: "local-nvme", Count: count}
	}
}

// diskEnv are the options about drives in the environment of a container.
func diskEnv(container corev1.Container) string {
	var lines []string
	for _, variable := range container.Env {
		if name, found := strings.CutPrefix(variable.Name, "PEERCACHE_DISK_"); found {
			lines = append(lines, name+"="+variable.Value)
		}
	}
	return strings.Join(lines, " ")
}

func TestDiskOptions(t *testing.T) {
	change := func(change func(*v1alpha1.DiskSpec)) func(*v1alpha1.PeerCacheClusterSpec) {
		return func(s *v1alpha1.PeerCacheClusterSpec) {
			onDisk("/mnt/a", "/mnt/b")(s)
			change(s.Disk)
		}
	}
	const path = "PATH=/var/lib/peercache/disk0,/var/lib/peercache/disk1 "
	for name, test := range map[string]struct {
		change func(*v1alpha1.PeerCacheClusterSpec)
		want   string
	}{
		"none":          {func(*v1alpha1.PeerCacheClusterSpec) {}, ""},
		"folders":       {change(func(*v1alpha1.DiskSpec) {}), path + "SIZE=500Gi WRITE_BUDGET=1 IO=auto"},
		"a decimal":     {change(func(d *v1alpha1.DiskSpec) { d.Size, d.WriteBudget = resource.MustParse("2T"), "0.3" }), path + "SIZE=2000000000000 WRITE_BUDGET=0.3 IO=auto"},
		"bytes a day":   {change(func(d *v1alpha1.DiskSpec) { d.WriteBudget, d.IO = "2Ti", v1alpha1.DiskIOURing }), path + "SIZE=500Gi WRITE_BUDGET=2Ti IO=io_uring"},
		"no budget":     {change(func(d *v1alpha1.DiskSpec) { d.WriteBudget, d.IO = "unlimited", v1alpha1.DiskIOAIO }), path + "SIZE=500Gi WRITE_BUDGET=unlimited IO=aio"},
		"threads":       {change(func(d *v1alpha1.DiskSpec) { d.IO = v1alpha1.DiskIOThreads }), path + "SIZE=500Gi WRITE_BUDGET=1 IO=threads"},
		"volumes":       {onVolumes(2), path + "SIZE=500Gi WRITE_BUDGET=1 IO=auto"},
		"no defaults":   {change(func(d *v1alpha1.DiskSpec) { d.WriteBudget, d.IO = "", "" }), path + "SIZE=500Gi"},
		"of the pool":   {withPool(onDisk("/mnt/a"), &v1alpha1.DiskSpec{HostPath: []v1alpha1.DiskFolder{"/srv"}, Size: resource.MustParse("1Gi")}), "PATH=/var/lib/peercache/disk0 SIZE=1Gi"},
		"not of others": {withPool(func(*v1alpha1.PeerCacheClusterSpec) {}, nil), ""},
	} {
		desired := mustPlan(t, testCluster(test.change))
		if got := diskEnv(desired.DaemonSets[0].Spec.Template.Spec.Containers[0]); got != test.want {
			t.Errorf("%s: the options are %s, want %s", name, got, test.want)
		}
		if strings.Contains(desired.Config.Data[configKey], "disk") {
			t.Errorf("%s: options that differ between groups are in the file", name)
		}
	}
}

// withPool adds a pool with a disk of its own to a spec.
func withPool(change func(*v1alpha1.PeerCacheClusterSpec), disk *v1alpha1.DiskSpec) func(*v1alpha1.PeerCacheClusterSpec) {
	return func(s *v1alpha1.PeerCacheClusterSpec) {
		change(s)
		s.NodePools = []v1alpha1.NodePool{{Name: "storage", Selector: map[string]string{"a": "b"}, Disk: disk}}
	}
}

func TestDiskVolumes(t *testing.T) {
	desired := mustPlan(t, testCluster(withRails(v1alpha1.TransportRDMA, shared("a", 0), shared("b", 1)), onDisk("/mnt/a", "/mnt/b")))
	for i, group := range []string{"numa0", "numa1"} {
		pod := desired.DaemonSets[i].Spec.Template.Spec
		for name, folder := range map[string]string{"disk0": "/mnt/a", "disk1": "/mnt/b"} {
			at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == name })
			if at < 0 || pod.Volumes[at].HostPath.Path != folder || *pod.Volumes[at].HostPath.Type != corev1.HostPathDirectory {
				t.Fatalf("volumes of %s are %+v", group, pod.Volumes)
			}
			// The folders of groups and clusters on one drive differ.
			want := corev1.VolumeMount{Name: name, MountPath: "/var/lib/peercache/" + name, SubPath: "inference.demo." + group}
			for _, container := range []corev1.Container{pod.Containers[0], pod.InitContainers[1]} {
				if !slices.Contains(container.VolumeMounts, want) {
					t.Errorf("container %s of %s mounts %+v", container.Name, group, container.VolumeMounts)
				}
			}
		}
	}

	pod := mustPlan(t, testCluster(onVolumes(2))).DaemonSets[0].Spec.Template.Spec
	var claims []string
	for _, volume := range pod.Volumes {
		if volume.Ephemeral != nil {
			claim := volume.Ephemeral.VolumeClaimTemplate.Spec
			size := claim.Resources.Requests[corev1.ResourceStorage]
			claims = append(claims, volume.Name+" "+*claim.StorageClassName+" "+string(claim.AccessModes[0])+" "+size.String())
		}
	}
	if want := []string{"disk0 local-nvme ReadWriteOnce 556Gi", "disk1 local-nvme ReadWriteOnce 556Gi"}; !slices.Equal(claims, want) {
		t.Errorf("claims are %q, want %q", claims, want)
	}
	if *pod.SecurityContext.FSGroup != nodeUser {
		t.Error("the node's user cannot write to a volume of a driver that follows fsGroup")
	}
	if plain := mustPlan(t, testCluster()).DaemonSets[0].Spec.Template.Spec; len(plain.InitContainers) != 1 {
		t.Errorf("without a disk there are %d init containers", len(plain.InitContainers))
	}
}

func TestDiskMemory(t *testing.T) {
	for _, test := range []struct {
		change func(*v1alpha1.PeerCacheClusterSpec)
		size   string
		want   string
	}{
		{onDisk("/mnt/a"), "1Gi", "1581Mi"},           // 2, 34, and 2 for the directory more than the pool, its index and the overhead
		{onDisk("/mnt/a", "/mnt/b"), "1Ti", "7051Mi"}, // twice 1216 and 34, and 3008 more
		{onVolumes(1), "500Gi", "2906Mi"},             // 594, 34 and 735 more
		{func(*v1alpha1.PeerCacheClusterSpec) {}, "", "1543Mi"},
	} {
		cluster := testCluster(test.change)
		if cluster.Spec.Disk != nil {
			cluster.Spec.Disk.Size = resource.MustParse(test.size)
		}
		container := mustPlan(t, cluster).DaemonSets[0].Spec.Template.Spec.Containers[0]
		if got := container.Resources.Limits.Memory().String(); got != test.want {
			t.Errorf("with %s the member has %s, want %s", test.size, got, test.want)
		}
	}
	// Huge pages take the pool out of the memory, but not the index.
	huge := testCluster(onDisk("/mnt/a"), func(s *v1alpha1.PeerCacheClusterSpec) { s.Memory.HugePages = v1alpha1.HugePages1Gi })
	if got := mustPlan(t, huge).DaemonSets[0].Spec.Template.Spec.Containers[0].Resources.Limits.Memory().String(); got != "1880Mi" {
		t.Errorf("with huge pages the member has %s", got)
	}
}

// TestDiskBuffers compares what is requested for a drive with the buffers that the data plane makes for it.
func TestDiskBuffers(t *testing.T) {
	number := func(file, pattern string) int64 {
		text, err := os.ReadFile("../../dataplane/src/" + file)
		if err != nil {
			t.Fatal(err)
		}
		match := regexp.MustCompile(pattern + ` = (\d+) << (\d+);`).FindSubmatch(text)
		if match == nil {
			t.Fatalf("%s has no %s", file, pattern)
		}
		value, _ := strconv.ParseInt(string(match[1]), 10, 64)
		shift, _ := strconv.ParseInt(string(match[2]), 10, 64)
		return value << shift
	}
	write := number("disk/log.h", "kWriteBytes")
	ring := 2 * (number("node/config/config.cc", "kLongestDiskPage")/write + 1) * write
	if used := ring + 1<<20; diskBuffers < used || diskBuffers > used+1<<20 {
		t.Errorf("%d MiB are requested for a drive, and it has %.1f MiB of buffers", diskBuffers>>20, float64(used)/(1<<20))
	}
}

// TestDirectoryOfDrives: shards have room for the pages on the drives of all nodes, also those of nodes without drives.
func TestDirectoryOfDrives(t *testing.T) {
	records := func(size string, extra map[string]string) func(*v1alpha1.PeerCacheClusterSpec) {
		return func(s *v1alpha1.PeerCacheClusterSpec) {
			onDisk("/mnt/a", "/mnt/b")(s)
			s.Disk.Size, s.ExtraConfig = resource.MustParse(size), extra
		}
	}
	limit := map[string]string{"max-directory-records": "33554432"}
	storage := func(s *v1alpha1.PeerCacheClusterSpec) {
		s.NodePools = []v1alpha1.NodePool{
			{Name: "storage", Selector: map[string]string{"a": "b"}, Disk: &v1alpha1.DiskSpec{HostPath: []v1alpha1.DiskFolder{"/srv"}, Size: resource.MustParse("2Ti")}},
			{Name: "plain", Selector: map[string]string{"a": "c"}},
		}
	}
	for name, test := range map[string]struct {
		change         func(*v1alpha1.PeerCacheClusterSpec)
		option, memory string
	}{
		"no drives":              {func(*v1alpha1.PeerCacheClusterSpec) {}, "", "1543Mi"},
		"the default is enough":  {records("350Gi", nil), "", "3472Mi"},
		"a terabyte on two":      {records("1Ti", nil), "47934900", "7051Mi"},
		"as extraConfig says":    {records("1Ti", limit), "", "7051Mi"},
		"less, by extraConfig":   {records("1Ti", map[string]string{"max-directory-records": "1048576"}), "", "4137Mi"},
		"drives of another pool": {storage, "47934900", "4551Mi"},
	} {
		sets := mustPlan(t, testCluster(test.change)).DaemonSets
		container, option := sets[len(sets)-1].Spec.Template.Spec.Containers[0], ""
		for _, variable := range container.Env {
			if variable.Name == "PEERCACHE_MAX_DIRECTORY_RECORDS" {
				option = variable.Value
			}
		}
		if memory := container.Resources.Limits.Memory().String(); option != test.option || memory != test.memory {
			t.Errorf("%s: %s records and %s of memory, want %s and %s", name, option, memory, test.option, test.memory)
		}
	}
}

// TestNoDiskInsidePods: a member inside an SGLang pod has neither the drives nor their memory.
func TestNoDiskInsidePods(t *testing.T) {
	for _, change := range []func(*v1alpha1.PeerCacheClusterSpec){onDisk("/mnt/a"), withPool(onVolumes(1), &v1alpha1.DiskSpec{Size: resource.MustParse("1Ti")})} {
		cluster := testCluster(change, func(s *v1alpha1.PeerCacheClusterSpec) { s.Injection.Mode = v1alpha1.InjectionSidecar })
		sidecar := mustNodeInPod(t, cluster, "default", "inference").Sidecar
		if env := diskEnv(sidecar); env != "" {
			t.Errorf("a sidecar has %s", env)
		}
		for _, mount := range sidecar.VolumeMounts {
			if strings.HasPrefix(mount.Name, volumeDisk) {
				t.Errorf("a sidecar mounts %+v", mount)
			}
		}
		if got := sidecar.Resources.Limits.Memory().String(); got != "1543Mi" {
			t.Errorf("a sidecar has %s", got)
		}
	}
}

// TestChownDiskFolders runs the command of the init container with a chown that writes down what it is told.
func TestChownDiskFolders(t *testing.T) {
	bin, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(filepath.Join(bin, "chown"), []byte("#!/bin/sh\necho \"$@\" >> "+log+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	pod := mustPlan(t, testCluster(onDisk("/mnt/a", "/mnt/b"))).DaemonSets[0].Spec.Template.Spec
	init := pod.InitContainers[1]
	if init.Name != DiskFoldersName || init.Image != testImage || *init.SecurityContext.RunAsUser != 0 {
		t.Fatalf("the init container is %+v", init)
	}
	command := exec.CommandContext(t.Context(), init.Command[0], init.Command[1:]...)
	command.Env = []string{"PATH=" + bin + ":/bin:/usr/bin"}
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	got, err := os.ReadFile(log)
	if want := "0:0 /var/lib/peercache/disk0\n-R 31998:31998 /var/lib/peercache/disk0\n" +
		"0:0 /var/lib/peercache/disk1\n-R 31998:31998 /var/lib/peercache/disk1\n"; err != nil || string(got) != want {
		t.Errorf("it runs chown with\n%s, want\n%s (%v)", got, want, err)
	}
}
