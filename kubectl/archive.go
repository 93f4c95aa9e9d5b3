// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// bundle is an archive of files in which nothing secret is. All that goes in passes through here.
type bundle struct {
	zip  *gzip.Writer
	tar  *tar.Writer
	root string
	now  time.Time
	// count is of the files that are in it.
	count    int
	failures []error
	// broken is the first error of writing; nothing is written after it.
	broken error
}

func newBundle(out io.Writer, root string, now time.Time) *bundle {
	zip := gzip.NewWriter(out)
	return &bundle{zip: zip, tar: tar.NewWriter(zip), root: root, now: now}
}

// failed notes what could not be had. The rest of the bundle is worth having without it.
func (b *bundle) failed(err error) {
	if err != nil {
		b.failures = append(b.failures, err)
	}
}

// text adds a file.
func (b *bundle) text(name string, text []byte) {
	if b.broken != nil {
		return
	}
	text = []byte(redactText(string(text)))
	b.broken = b.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: path.Join(b.root, name), Size: int64(len(text)), Mode: 0o600, ModTime: b.now,
	})
	if b.broken == nil {
		_, b.broken = b.tar.Write(text)
	}
	b.count++
}

// report adds what a command would print.
func (b *bundle) report(name string, r report) {
	var text bytes.Buffer
	r.text(&text)
	b.text(name, text.Bytes())
}

// object adds an object, or a list of them, as YAML.
func (b *bundle) object(name string, object runtime.Object) {
	switch object.(type) {
	case *corev1.Secret, *corev1.SecretList:
		b.failed(fmt.Errorf("%s: Secrets do not belong in a bundle", name))
		return
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		b.failed(fmt.Errorf("writing %s: %w", name, err))
		return
	}
	redactObject(fields)
	text, err := yaml.Marshal(fields)
	if err != nil {
		b.failed(fmt.Errorf("writing %s: %w", name, err))
		return
	}
	b.text(name, text)
}

// list adds the objects of a kind.
func (b *bundle) list(ctx context.Context, a *access, name string, list client.ObjectList, options ...client.ListOption) {
	if err := a.List(ctx, list, options...); err != nil {
		b.failed(explain(err, "listing what belongs into "+name))
		return
	}
	b.object(name, list)
}

// close adds errors.txt and returns how many things could not be had.
func (b *bundle) close() (missing int, err error) {
	missing = len(b.failures)
	var text strings.Builder
	for _, failure := range b.failures {
		_, _ = fmt.Fprintln(&text, failure)
	}
	b.text("errors.txt", []byte(text.String()))
	return missing, errors.Join(b.broken, b.tar.Close(), b.zip.Close())
}
