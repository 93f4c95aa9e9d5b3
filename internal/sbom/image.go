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

// image is the content of an archive.
type image struct {
	file  string // path of the archive
	sum   string // SHA-256 of the archive
	made  time.Time
	parts []part
}

// part is something in an image that is not of this repository, or a module of this repository.
type part struct {
	name, version string
	purl          string
	compiled      bool   // into programs of the image; otherwise it is there itself
	module        string // PATH@VERSION of a Go module
	licence       licence
}

// files are the files of an image that describe its content, by path. A later layer replaces and removes files of
// earlier ones.
type files map[string][]byte

func readImage(archive string) (image, error) {
	info, err := os.Stat(archive) //nolint:gosec // the caller names it
	if err != nil {
		return image{}, err
	}
	content, err := os.ReadFile(archive) //nolint:gosec // the caller names it
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
	parts := found.parts()
	if err := addGoLicences(parts); err != nil {
		return image{}, err
	}
	sum := sha256.Sum256(content)
	return image{filepath.Base(archive), hex.EncodeToString(sum[:]), info.ModTime().UTC(), parts}, nil
}

// untar reads the whole archive: images have some 100 MB, and a layer may come before the list of layers.
func untar(archive []byte) (map[string][]byte, error) {
	entries, links := map[string][]byte{}, map[string]string{}
	err := each(bytes.NewReader(archive), func(header *tar.Header, content io.Reader) (err error) {
		name := path.Clean(header.Name)
		if header.Typeflag == tar.TypeSymlink { // a link between two equal layers
			links[name] = path.Join(path.Dir(name), header.Linkname) //nolint:gosec // it names another entry, not a file
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
		if removed, ok := strings.CutPrefix(path.Base(name), ".wh."); ok { // the layer removes a file of an earlier layer
			f.remove(path.Join(path.Dir(name), removed))
			return nil
		}
		delete(f, name)
		if header.Typeflag == tar.TypeSymlink && isCopyright(name) {
			f[name] = []byte(linkMark + header.Linkname)
			return nil
		}
		start := bufio.NewReader(content)
		if name != packagesFile && name != releaseFile && name != compiledFile && !strings.HasSuffix(name, "/copyright") && !isProgram(header, start) {
			return nil
		}
		var err error
		f[name], err = io.ReadAll(start)
		return err
	})
}

func isProgram(header *tar.Header, content *bufio.Reader) bool {
	magic, _ := content.Peek(4) // a shorter file gives fewer bytes
	return header.Typeflag == tar.TypeReg && header.Mode&0o111 != 0 && string(magic) == "\x7fELF"
}

// remove removes a file or a folder. The name `.wh..opq`, here without its prefix, empties its folder.
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

// parts returns all parts, each once, sorted.
func (f files) parts() []part {
	all := slices.Concat(f.debianPackages(packagesFile), f.debianPackages(compiledFile))
	for _, content := range f {
		program, err := buildinfo.Read(bytes.NewReader(content))
		if err != nil {
			continue // it is no Go program
		}
		all = append(all, goModules(program)...)
	}
	slices.SortFunc(all, func(a, b part) int { return strings.Compare(a.purl, b.purl) })
	return slices.CompactFunc(all, func(a, b part) bool { return a.purl == b.purl })
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
