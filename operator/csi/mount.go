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
)

// mounts mounts directories below root at targets. The kernel is the only record of the mounts.
type mounts struct {
	root string
	mu   sync.Mutex
}

// socketDir is a directory of sockets on the machine.
type socketDir struct {
	// cluster is the path of the directory of a cluster, relative to that of all sockets.
	cluster string
	// tenant is the folder of a namespace in it, or "" for the directory itself.
	tenant string
}

// publish mounts a directory of sockets read-only. Connecting to a socket needs write permission on the socket alone, and a pod
// that could write to the directory could replace the socket of a node.
//
// The directory belongs to the machine and not to a pod, so the mount outlives all pods of the data plane. A missing directory
// is created, as for hostPath, so that SGLang pods may start before the node.
func (m *mounts) publish(from socketDir, target string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	source, err := m.open(from)
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
	// Another mount exists only if the directory was recreated since.
	if err := unmount(target); err != nil {
		return err
	}
	return bind(source, target)
}

// unpublish removes a mount. It is idempotent.
func (m *mounts) unpublish(target string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := unmount(target); err != nil {
		return err
	}
	// RemoveAll would delete files in a mount that still exists.
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the mount point: %w", err)
	}
	return nil
}

// open opens a directory of sockets below root, and creates it if it is missing. It follows no link out of root.
func (m *mounts) open(from socketDir) (*os.File, error) {
	all, err := os.OpenRoot(m.root)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of all sockets: %w", err)
	}
	defer func() { _ = all.Close() }()
	if err := all.MkdirAll(from.cluster, 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of sockets below %s: %w", m.root, err)
	}
	directory, err := all.OpenFile(from.cluster, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of sockets below %s: %w", m.root, err)
	}
	if from.tenant == "" {
		return directory, nil
	}
	defer func() { _ = directory.Close() }()
	return openTenant(directory, from.tenant)
}

// openTenant opens the folder of a tenant, and gives it to the owner of the directory: the user of the nodes, who could not listen
// in a folder of root. That user could replace the folder by a link, even to the folder of another tenant, so links are not
// followed.
func openTenant(directory *os.File, tenant string) (*os.File, error) {
	at := int(directory.Fd())
	if err := unix.Mkdirat(at, tenant, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making folder %s in %s: %w", tenant, directory.Name(), err)
	}
	fd, err := unix.Openat(at, tenant, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening folder %s in %s: %w", tenant, directory.Name(), err)
	}
	folder := os.NewFile(uintptr(fd), filepath.Join(directory.Name(), tenant))
	var nodes unix.Stat_t
	if err := errors.Join(unix.Fstat(at, &nodes), folder.Chown(int(nodes.Uid), int(nodes.Gid))); err != nil {
		_ = folder.Close()
		return nil, fmt.Errorf("giving folder %s to the nodes' user: %w", folder.Name(), err)
	}
	return folder, nil
}

// isMounted is true where source is mounted read-only at target.
func isMounted(source *os.File, target string) (bool, error) {
	from, err := source.Stat()
	if err != nil {
		return false, fmt.Errorf("checking %s: %w", source.Name(), err)
	}
	to, err := os.Stat(target)
	if err != nil {
		return false, fmt.Errorf("checking the mount point: %w", err)
	}
	var mount unix.Statfs_t
	if err := unix.Statfs(target, &mount); err != nil {
		return false, fmt.Errorf("checking the mount point %s: %w", target, err)
	}
	return os.SameFile(from, to) && mount.Flags&unix.ST_RDONLY != 0, nil
}

// bind attaches a mount that is already read-only. With mount(2), a mount becomes read-only only afterwards; the copy that has
// propagated to the machine, from which the kubelet mounts it into the pod, would stay writable.
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

// unmount removes all mounts at a path, which need not exist.
func unmount(target string) error {
	for {
		err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT): // nothing is mounted there
			return nil
		case err != nil:
			return fmt.Errorf("unmounting %s: %w", target, err)
		}
	}
}
