// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// addEnv gives a container its environment, or says why it cannot.
func addEnv(c *corev1.Container, l link) (reason string) {
	if l.delivered {
		if reason := prependPythonPath(c); reason != "" {
			return reason
		}
	}
	add := []corev1.EnvVar{{Name: envFlags, Value: allFlags(l.settings)}}
	if l.socket != "" {
		add = slices.Insert(add, 0, corev1.EnvVar{Name: envSocket, Value: l.socket})
	}
	if l.node != nil {
		add = append(add, nodeIdentity(c.Name)...)
	}
	for _, v := range add {
		if lastEnv(c.Env, v.Name) < 0 {
			c.Env = append(c.Env, v)
		}
	}
	return ""
}

// prependPythonPath puts the client in front of what the user has on PYTHONPATH. A PYTHONPATH that the image
// itself sets cannot be seen from here and is replaced.
func prependPythonPath(c *corev1.Container) (reason string) {
	i := lastEnv(c.Env, envPythonPath)
	switch {
	case i < 0 && len(c.EnvFrom) == 0:
		c.Env = append(c.Env, corev1.EnvVar{Name: envPythonPath, Value: clientDir})
	case i < 0:
		// A ConfigMap or Secret may bring PYTHONPATH. Its value is known when ours is expanded; where there is
		// none, Kubernetes leaves the reference as it stands, a directory that does not exist.
		c.Env = append(c.Env, corev1.EnvVar{Name: envPythonPath, Value: clientDir + ":$(" + envPythonPath + ")"})
	case c.Env[i].ValueFrom != nil:
		// Only a plain value can refer to another one, so the user's moves to a name of its own.
		if lastEnv(c.Env, envUserPythonPath) >= 0 {
			return reasonUserPythonPath()
		}
		users := c.Env[i]
		users.Name = envUserPythonPath
		ours := corev1.EnvVar{Name: envPythonPath, Value: clientDir + ":$(" + envUserPythonPath + ")"}
		c.Env = slices.Replace(c.Env, i, i+1, users, ours)
	case c.Env[i].Value == "":
		// An empty element would put the working directory on the path.
		c.Env[i].Value = clientDir
	case !slices.Contains(strings.Split(c.Env[i].Value, ":"), clientDir):
		c.Env[i].Value = clientDir + ":" + c.Env[i].Value
	}
	return ""
}

// lastEnv finds the definition of a variable that counts: Kubernetes lets the last one win.
func lastEnv(env []corev1.EnvVar, name string) int {
	for i, v := range slices.Backward(env) {
		if v.Name == name {
			return i
		}
	}
	return -1
}
