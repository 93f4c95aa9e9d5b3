// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"fmt"
	"io"
	"net/http"
)

// bounded gives every answer a body that ends with an error after longestAnswer bytes.
func bounded(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil {
			response.Body = &boundedBody{ReadCloser: response.Body, left: longestAnswer}
		}
		return response, err
	})
}

type boundedBody struct {
	io.ReadCloser

	left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(into []byte) (int, error) {
	if b.left == 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", longestAnswer-1)
	}
	n, err := b.ReadCloser.Read(into[:min(len(into), b.left)])
	b.left -= n
	return n, err
}
