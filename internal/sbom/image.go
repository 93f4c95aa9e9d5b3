// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// image is what an archive holds.
type image struct {
	file  string // the archive
	sum   string // its SHA-256
	made  time.Time
	parts []part
}

// part is something in an image that somebody else makes, or a module of ours.
type part struct {
	name, version string
	purl          string
}

// Files of Debian, without the leading slash.
const (
	packagesFile = "var/lib/dpkg/status"
	releaseFile  = "usr/lib/os-release"
)

// files are those of an image that say what is in it, by path. A later layer replaces and removes those of earlier ones.
type files map[string][]byte

func readImage(archive string) (image, error) {
	info, err := os.Stat(archive) //nolint:gosec // named by who runs this
	if err != nil {
		return image{}, err
	}
	content, err := os.ReadFile(archive) //nolint:gosec // named by who runs this
	if err != nil {
		return image{}, err
	}
	entries, err := untar(content)
	if err != nil {
		return image{}, err
	}
	var manifest []struct {
		Layers []string
	}
	if err := json.Unmarshal(entries["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		return image{}, fmt.Errorf("manifest.json names %d images: %w", len(manifest), err)
	}
	found := files{}
	for _, layer := range manifest[0].Layers {
		if err := found.add(entries[layer]); err != nil {
			return image{}, fmt.Errorf("layer %s: %w", layer, err)
		}
	}
	sum := sha256.Sum256(content)
	return image{filepath.Base(archive), hex.EncodeToString(sum[:]), info.ModTime().UTC(), found.parts()}, nil
}

// untar reads all of it: images are some 100 MB, and a layer may come before the list of layers.
func untar(archive []byte) (map[string][]byte, error) {
	entries, links := map[string][]byte{}, map[string]string{}
	err := each(bytes.NewReader(archive), func(header *tar.Header, content io.Reader) (err error) {
		name := path.Clean(header.Name)
		if header.Typeflag == tar.TypeSymlink { // two equal layers
			links[name] = path.Join(path.Dir(name), header.Linkname) //nolint:gosec // the name of another entry, and of no file
			return nil
		}
		entries[name], err = io.ReadAll(content)
		return err
	})
	for name, to := range links {
		entries[name] = entries[to]
	}
	return entries, err
}

func (f files) add(layer []byte) error {
	var content io.Reader = bytes.NewReader(layer)
	if bytes.HasPrefix(layer, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(content)
		if err != nil {
			return err
		}
		content = unpacked
	}
	return each(content, func(header *tar.Header, content io.Reader) error {
		name := path.Clean(strings.TrimPrefix(header.Name, "/"))
		if removed, ok := strings.CutPrefix(path.Base(name), ".wh."); ok { // what a layer takes from those below
			f.remove(path.Join(path.Dir(name), removed))
			return nil
		}
		delete(f, name)
		start := bufio.NewReader(content)
		if name != packagesFile && name != releaseFile && !isProgram(header, start) {
			return nil
		}
		var err error
		f[name], err = io.ReadAll(start)
		return err
	})
}

func isProgram(header *tar.Header, content *bufio.Reader) bool {
	magic, _ := content.Peek(4) // less of a file that is shorter
	return header.Typeflag == tar.TypeReg && header.Mode&0o111 != 0 && string(magic) == "\x7fELF"
}

// remove takes a file or a folder away; the name `.wh..opq`, of which the beginning is gone, empties the folder it is in.
func (f files) remove(name string) {
	if path.Base(name) == ".wh..opq" {
		name = path.Dir(name)
	}
	for known := range f {
		if known == name || strings.HasPrefix(known, name+"/") {
			delete(f, known)
		}
	}
}

// parts are all, each once, sorted.
func (f files) parts() []part {
	all := debianPackages(f[packagesFile], f[releaseFile])
	for _, content := range f {
		program, err := buildinfo.Read(bytes.NewReader(content))
		if err != nil {
			continue // not made of Go
		}
		all = append(all, goModules(program)...)
	}
	slices.SortFunc(all, func(a, b part) int { return strings.Compare(a.purl, b.purl) })
	return slices.Compact(all)
}

func each(archive io.Reader, do func(*tar.Header, io.Reader) error) error {
	reader := tar.NewReader(archive)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(header, reader)
		}
		if err != nil {
			return err
		}
	}
}
