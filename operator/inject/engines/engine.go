// SPDX-License-Identifier: Apache-2.0

// Package engines has what inference engines have in common for injection: the interface behind which each keeps its command
// line (packages sglang and vllm), and the words of such a command line. All of it is pure.
package engines

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Delivery is the way in which a container gets the flags.
type Delivery string

// The values of Delivery.
const (
	// DeliveryFlags appends the flags to the arguments.
	DeliveryFlags Delivery = "flags"
	// DeliveryEnvironment changes no argument, and offers the flags in a variable (About.Variable).
	DeliveryEnvironment Delivery = "environment"
)

// Engine is what an inference engine alone knows. Injection itself delivers the client, the socket, mounts and variables.
type Engine interface {
	About() About
	// Launch returns the index of the word before the engine's flags, or -1 where the words do not start the engine directly.
	// started is also true where a script among the words starts it.
	Launch(words []string) (index int, started bool)
	// Claims is true for a container whose name or image says that it runs the engine, where no command does.
	Claims(c *corev1.Container) bool
	// TakesArguments is true where the arguments of a claimed container without a command are the engine's.
	TakesArguments(args Argv) bool
	// Connect returns what the engine needs for PeerCache, or the reason to leave the container alone.
	Connect(args Argv, delivery Delivery, link Link) (Change, string)
	// AllFlags are the flags for a script, as one text for word splitting.
	AllFlags(link Link) string
	// Shown is true where a script or a file of flags needs no further look, with a note where the engine will not use PeerCache.
	Shown(args Argv) (note string, shown bool)
	// Notes are what the user should know about the settings of a connected container.
	Notes(args Argv, delivery Delivery) []string
	// Ranks is the number of processes that attach to a node, each by itself; 1 where the arguments do not tell.
	Ranks(args Argv) int
	// Advice is what to decide about a connected container whose flags are visible, or "". It is about what nearly every pod has.
	Advice(c *corev1.Container) string
}

// About is how texts name an engine.
type About struct {
	// Name is for texts, and ID for the annotation peercache.io/engine.
	Name, ID string
	// Variable holds the flags for scripts.
	Variable string
	// Other is what a file of flags may choose instead of PeerCache.
	Other string
}

// Link is how a container reaches its node, as far as flags depend on it.
type Link struct {
	// Socket is the path of the node's socket, or "" where the node runs in the process of the engine.
	Socket string
	// Node are the settings of a node in the process.
	Node []Setting
	// HostMemory is the host memory of a vLLM container. HostMemoryReason is why there is none.
	HostMemory       resource.Quantity
	HostMemoryReason string
	// ByPolicy is true where an admission policy connects the pods.
	ByPolicy bool
}

// Setting is one key of the configuration of the Python package with its value as JSON.
type Setting struct {
	Key, Value string
	// Instead is another spelling of the key.
	Instead string
}

// Change is what a container gets. The zero value changes nothing.
type Change struct {
	Rewrite *Rewrite
	Add     []string
	// Shared is the memory in bytes that the engine takes of /dev/shm, 0 where it needs none.
	Shared int64
	// OwnSize is true where the user chose the size of Shared, and answers for its room.
	OwnSize bool
}

// Rewrite replaces one word of the arguments.
type Rewrite struct {
	Index int
	Word  string
}

// Apply changes the arguments of a container.
func (ch Change) Apply(c *corev1.Container) {
	if ch.Rewrite != nil {
		if i := ch.Rewrite.Index; i < len(c.Command) {
			c.Command[i] = ch.Rewrite.Word
		} else {
			c.Args[i-len(c.Command)] = ch.Rewrite.Word
		}
	}
	// Args are right even where the program is in command: the container runs command followed by args.
	c.Args = append(c.Args, ch.Add...)
}
