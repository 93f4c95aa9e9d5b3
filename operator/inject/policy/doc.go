// SPDX-License-Identifier: Apache-2.0

// Package policy expresses injection as a MutatingAdmissionPolicy: inject.Inject for a pod in mode Node, as CEL expressions
// that the API server evaluates. It connects SGLang; vLLM is left to the webhook. A test on a real API server compares both on the same pods.
//
//	policy.go      the policy and its binding
//	pod.go         the reason to leave the pod alone, and its annotations
//	containers.go  which containers run SGLang, and how they get the flags
//	flags.go       which flags are added
//	config.go      the user's extra config
//	patch.go       the JSON patch
//	cel.go         values and decisions in CEL
package policy
