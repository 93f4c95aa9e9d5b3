// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/api/v1alpha1"
)

// A rotation takes three steps, because machines see a change of a Secret at different times, and a node that starts meanwhile
// knows only the current content:
//
//  1. old, new: all nodes accept both tokens, and prove the old one
//  2. new, old: the nodes begin to prove the new one
//  3. new: the nodes cease to accept the old one
//
// Each step begins when every node follows the step before. So every token that a node proves is accepted by the others.
const (
	// spreadStep is longer than the kubelet (90 s: a period of 1 min and a jitter of half of it) and the node (auth-spread-ms,
	// 1 min) need until the node proves the changed token.
	spreadStep = 3 * time.Minute
	// endStep is longer than the kubelet needs, and then a node continues to accept a token that is no longer in the file (twice
	// auth-spread-ms).
	endStep   = 4 * time.Minute
	lastStep  = 3
	tokenSize = 32

	annotationStep  = "peercache.io/rotation-step"
	annotationSince = "peercache.io/rotation-since"
)

// Token is the content of the Secret that the operator keeps.
type Token struct {
	// Lines are tokens. Nodes prove the first and accept all.
	Lines []string
	// Rotation is the value of the cluster's annotation for which the last rotation began.
	Rotation string
	// Step is the step of that rotation, 0 when it is over. Since is the time at which the step began.
	Step  int
	Since time.Time
}

// NewToken returns the first token of a cluster. A rotation that is requested already is complete with it.
func NewToken(asked string) Token { return Token{Lines: []string{randomHex()}, Rotation: asked} }

func randomHex() string {
	var bytes [tokenSize]byte
	_, _ = rand.Read(bytes[:]) // it never fails
	return hex.EncodeToString(bytes[:])
}

// Next returns the content that the Secret must have now. It equals t until the next step is due.
func (t Token) Next(asked string, now time.Time) Token {
	switch {
	case t.Step == 0 && (asked == "" || asked == t.Rotation), t.Step != 0 && now.Before(t.Due()):
		return t
	case t.Step == 0:
		return Token{Lines: append(slices.Clone(t.Lines), randomHex()), Rotation: asked, Step: 1, Since: now}
	case t.Step == 1:
		last := len(t.Lines) - 1
		t.Lines = append([]string{t.Lines[last]}, t.Lines[:last]...)
	case t.Step == 2:
		t.Lines = t.Lines[:1]
	default:
		return Token{Lines: t.Lines, Rotation: t.Rotation}
	}
	t.Step, t.Since = t.Step+1, now
	return t
}

// Due is the end of the current step.
func (t Token) Due() time.Time {
	if t.Step == lastStep {
		return t.Since.Add(endStep)
	}
	return t.Since.Add(spreadStep)
}

// End is the end of the rotation if all its steps are in time.
func (t Token) End() time.Time {
	end := t.Due()
	for step := t.Step + 1; step <= lastStep; step++ {
		end = Token{Step: step, Since: end}.Due()
	}
	return end
}

// Equal compares two contents.
func (t Token) Equal(other Token) bool {
	return slices.Equal(t.Lines, other.Lines) && t.Rotation == other.Rotation && t.Step == other.Step && t.Since.Equal(other.Since)
}

// Write puts the content into a Secret, and keeps its other keys.
func (t Token) Write(secret *corev1.Secret) {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[TokenKey] = []byte(strings.Join(t.Lines, "\n") + "\n")
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	for key, value := range map[string]string{
		v1alpha1.AnnotationRotateToken: t.Rotation, annotationStep: strconv.Itoa(t.Step), annotationSince: t.Since.UTC().Format(time.RFC3339),
	} {
		if key != v1alpha1.AnnotationRotateToken && t.Step == 0 || value == "" {
			delete(secret.Annotations, key)
		} else {
			secret.Annotations[key] = value
		}
	}
}

// ReadToken returns the content of a Secret. An invalid Secret stays as it is.
func ReadToken(secret *corev1.Secret) (Token, *Problem) {
	name := secret.Namespace + "/" + secret.Name
	lines := strings.FieldsFunc(string(secret.Data[TokenKey]), func(c rune) bool { return c == '\n' || c == '\r' })
	t := Token{Lines: lines, Rotation: secret.Annotations[v1alpha1.AnnotationRotateToken]}
	if len(t.Lines) == 0 || slices.ContainsFunc(t.Lines, func(line string) bool { return entropyBits(line) < minSecretBits }) {
		return t, &Problem{Reason: "TokenInvalid", Message: fmt.Sprintf("Secret %s has no token, or one of less than %d bits, under the key %s: "+
			"write one (openssl rand -hex 32), or delete the Secret, and the operator draws one", name, minSecretBits, TokenKey)}
	}
	text, rotating := secret.Annotations[annotationStep]
	if !rotating {
		return t, nil
	}
	step, err := strconv.Atoi(text)
	since, sinceErr := time.Parse(time.RFC3339, secret.Annotations[annotationSince])
	if err != nil || sinceErr != nil || step < 1 || step > lastStep {
		return t, &Problem{Reason: "TokenInvalid", Message: fmt.Sprintf("the annotations %s and %s of Secret %s do not show how far a "+
			"rotation is: remove both, and the tokens stay as they are", annotationStep, annotationSince, name)}
	}
	t.Step, t.Since = step, since
	return t, nil
}
