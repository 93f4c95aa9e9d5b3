// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// mounts puts directories below root in their places. The kernel remembers what is mounted; nothing is kept here.
type mounts struct {
	root string
	mu   sync.Mutex
}

// publish mounts the directory of a cluster, read-only: connecting to a socket needs write permission on the socket alone,
// and whoever could write to the directory could put another socket in a node's place.
//
// It is the machine's directory, not one of a pod's, so the mount outlives all pods of the data plane. One that does not
// exist yet is made, as for hostPath, so that SGLang pods may start before the node.
func (m *mounts) publish(cluster types.NamespacedName, target string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	source, err := openBelow(m.root, filepath.Join(cluster.Namespace, cluster.Name))
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	if err := os.MkdirAll(target, 0o750); err != nil {
		return fmt.Errorf("making the mount point: %w", err)
	}
	same, err := isMounted(source, target)
	if err != nil || same {
		return err
	}
	// Something else is there only if the directory was made anew since.
	if err := unmount(target); err != nil {
		return err
	}
	return bind(source, target)
}

// unpublish undoes it, as often as it is called.
func (m *mounts) unpublish(target string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := unmount(target); err != nil {
		return err
	}
	// Not RemoveAll: a mount that somehow is still there would lose its files.
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the mount point: %w", err)
	}
	return nil
}

// openBelow opens a directory that lies below another, whatever links there are on the way.
func openBelow(root, path string) (*os.File, error) {
	below, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of all sockets: %w", err)
	}
	defer func() { _ = below.Close() }()
	if err := below.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of sockets below %s: %w", root, err)
	}
	directory, err := below.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of sockets below %s: %w", root, err)
	}
	return directory, nil
}

// isMounted says whether the target is the source, mounted read-only.
func isMounted(source *os.File, target string) (bool, error) {
	from, err := source.Stat()
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", source.Name(), err)
	}
	to, err := os.Stat(target)
	if err != nil {
		return false, fmt.Errorf("looking at the mount point: %w", err)
	}
	var mount unix.Statfs_t
	if err := unix.Statfs(target, &mount); err != nil {
		return false, fmt.Errorf("looking at the mount point %s: %w", target, err)
	}
	return os.SameFile(from, to) && mount.Flags&unix.ST_RDONLY != 0, nil
}

// bind attaches a mount that is read-only already. A mount that is made read-only afterwards, as with mount(2), would
// stay writable where it has propagated to: on the machine, from which the kubelet gives it to the pod.
func bind(source *os.File, target string) error {
	fd := int(source.Fd())
	tree, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("copying the mount of %s: %w%s", source.Name(), err, advice(err))
	}
	defer func() { _ = unix.Close(tree) }()
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC,
	})
	if err != nil {
		return fmt.Errorf("making the mount of %s read-only: %w%s", source.Name(), err, advice(err))
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mounting at %s: %w%s", target, err, advice(err))
	}
	return nil
}

func advice(err error) string {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return ": this needs Linux 5.12 or newer, or write injection.socket: HostPath"
	case errors.Is(err, unix.EPERM):
		return ": run the container with privileged: true"
	default:
		return ""
	}
}

// unmount takes away all that is mounted at a path, which need not exist.
func unmount(target string) error {
	for {
		err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT): // no mount, or no longer one
			return nil
		case err != nil:
			return fmt.Errorf("unmounting %s: %w", target, err)
		}
	}
}
