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

// bundle is an archive of files without secrets. Every file passes through text, which redacts.
type bundle struct {
	zip  *gzip.Writer
	tar  *tar.Writer
	root string
	now  time.Time
	// count is the number of files in the archive.
	count    int
	failures []error
	// writeErr is the first error of writing. Nothing is written after it.
	writeErr error
}

func newBundle(out io.Writer, root string, now time.Time) *bundle {
	zip := gzip.NewWriter(out)
	return &bundle{zip: zip, tar: tar.NewWriter(zip), root: root, now: now}
}

// addFailure records what is missing. The bundle is useful without it.
func (b *bundle) addFailure(err error) {
	if err != nil {
		b.failures = append(b.failures, err)
	}
}

// text adds a file, redacted.
func (b *bundle) text(name string, text []byte) {
	if b.writeErr != nil {
		return
	}
	text = []byte(redactText(string(text)))
	b.writeErr = b.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: path.Join(b.root, name), Size: int64(len(text)), Mode: 0o600, ModTime: b.now,
	})
	if b.writeErr == nil {
		_, b.writeErr = b.tar.Write(text)
	}
	b.count++
}

// report adds the text that a command prints.
func (b *bundle) report(name string, r report) {
	var text bytes.Buffer
	r.text(&text)
	b.text(name, text.Bytes())
}

// object adds an object or a list of objects as YAML.
func (b *bundle) object(name string, object runtime.Object) {
	switch object.(type) {
	case *corev1.Secret, *corev1.SecretList:
		b.addFailure(fmt.Errorf("%s: Secrets do not belong in a bundle", name))
		return
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		b.addFailure(fmt.Errorf("writing %s: %w", name, err))
		return
	}
	redactObject(fields)
	text, err := yaml.Marshal(fields)
	if err != nil {
		b.addFailure(fmt.Errorf("writing %s: %w", name, err))
		return
	}
	b.text(name, text)
}

// list adds all objects of the kind of list that options select.
func (b *bundle) list(ctx context.Context, a *access, name string, list client.ObjectList, options ...client.ListOption) {
	if err := a.List(ctx, list, options...); err != nil {
		b.addFailure(explain(err, "listing the objects of "+name))
		return
	}
	b.object(name, list)
}

// close adds errors.txt and returns the number of failures.
func (b *bundle) close() (missing int, err error) {
	missing = len(b.failures)
	var text strings.Builder
	for _, failure := range b.failures {
		_, _ = fmt.Fprintln(&text, failure)
	}
	b.text("errors.txt", []byte(text.String()))
	return missing, errors.Join(b.writeErr, b.tar.Close(), b.zip.Close())
}
