// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/peercache/peercache/operator/inject/engines"
	"github.com/peercache/peercache/operator/inject/names"
	"github.com/peercache/peercache/operator/inject/reasons"
)

// addEnv gives a container its variables, or returns a reason.
func addEnv(c *corev1.Container, engine engines.Engine, l link) (reason string) {
	if l.delivered {
		if reason := prependPythonPath(c); reason != "" {
			return reason
		}
	}
	add := []corev1.EnvVar{{Name: engine.About().Variable, Value: engine.AllFlags(l.Link)}}
	if l.Socket != "" {
		add = slices.Insert(add, 0, corev1.EnvVar{Name: names.EnvSocket, Value: l.Socket})
	}
	if l.numaSockets != "" {
		add = append(add, corev1.EnvVar{Name: names.EnvNUMASockets, Value: l.numaSockets})
	}
	if l.tagScope != "" {
		add = append(add, corev1.EnvVar{Name: names.EnvTagScope, Value: l.tagScope})
	}
	if l.heldOut {
		add = append(add, corev1.EnvVar{Name: names.EnvHoldout, Value: names.HoldoutTrue})
	}
	if l.inPod != nil {
		add = append(add, nodeIdentity(c.Name)...)
	}
	for _, v := range add {
		if lastEnv(c.Env, v.Name) < 0 {
			c.Env = append(c.Env, v)
		}
	}
	return ""
}

// prependPythonPath puts the client before the user's PYTHONPATH. A PYTHONPATH of the image is not visible in the pod, and is
// replaced.
func prependPythonPath(c *corev1.Container) (reason string) {
	i := lastEnv(c.Env, names.EnvPythonPath)
	ignored, replaced := engines.PythonPath(engines.ContainerArgv(c).Words)
	switch {
	case ignored:
		return reasons.PythonPathIgnored()
	case replaced:
		return reasons.PythonPathReplaced()
	case i < 0 && len(c.EnvFrom) == 0:
		c.Env = append(c.Env, corev1.EnvVar{Name: names.EnvPythonPath, Value: names.ClientDir})
	case i < 0:
		// A ConfigMap or Secret may set PYTHONPATH. Kubernetes expands our reference to its value. Without one, Kubernetes leaves
		// the reference in place, which names no directory and has no effect.
		c.Env = append(c.Env, corev1.EnvVar{Name: names.EnvPythonPath, Value: names.ClientDir + ":$(" + names.EnvPythonPath + ")"})
	case c.Env[i].ValueFrom != nil:
		// A value can refer only to another variable, so the user's definition gets another name.
		if lastEnv(c.Env, names.EnvUserPythonPath) >= 0 {
			return reasons.VariableTaken()
		}
		users := c.Env[i]
		users.Name = names.EnvUserPythonPath
		ours := corev1.EnvVar{Name: names.EnvPythonPath, Value: names.ClientDir + ":$(" + names.EnvUserPythonPath + ")"}
		c.Env = slices.Replace(c.Env, i, i+1, users, ours)
	case c.Env[i].Value == "":
		// An empty element of PYTHONPATH would mean the working directory.
		c.Env[i].Value = names.ClientDir
	case !slices.Contains(strings.Split(c.Env[i].Value, ":"), names.ClientDir):
		c.Env[i].Value = names.ClientDir + ":" + c.Env[i].Value
	}
	return ""
}

// lastEnv returns the index of the last definition of a variable, which Kubernetes uses, or -1.
func lastEnv(env []corev1.EnvVar, name string) int {
	for i, v := range slices.Backward(env) {
		if v.Name == name {
			return i
		}
	}
	return -1
}
