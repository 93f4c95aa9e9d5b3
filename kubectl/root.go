// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// plugin is what all commands share.
type plugin struct {
	genericiooptions.IOStreams
	version string
	flags   *genericclioptions.ConfigFlags
	// allNamespaces is the value of --all-namespaces.
	allNamespaces bool
	// Tests replace connect, now and sleep.
	connect func() (*access, error)
	now     func() time.Time
	sleep   func(ctx context.Context, d time.Duration) error
}

// The groups of commands in the help, by their headings.
const (
	groupShow    = "Show the state"
	groupFind    = "Find faults"
	groupOperate = "Operate"
	groupSetUp   = "Set up"
)

// shownFlags are the flags of kubectl that the help of every command shows.
var shownFlags = []string{"namespace", "context", "kubeconfig"}

// errUnhealthy ends a command with status 1. The report, which is printed already, says what is wrong.
var errUnhealthy = errors.New("something is wrong")

// Run executes a command line and returns the exit status. The status is 1 after an error, and where doctor or bench found
// something wrong.
func Run(ctx context.Context, args []string, version string, streams genericiooptions.IOStreams) int {
	streams.Out, streams.ErrOut = harmless{Writer: streams.Out, color: showsColor(streams.Out)}, harmless{Writer: streams.ErrOut}
	p := &plugin{IOStreams: streams, version: version, now: time.Now, sleep: sleep}
	p.flags = genericclioptions.NewConfigFlags(true)
	p.connect = func() (*access, error) { return connect(p.flags) }
	return p.run(ctx, args)
}

func (p *plugin) run(ctx context.Context, args []string) int {
	log.SetLogger(logr.Discard()) // the errors say what goes wrong
	command := p.command()
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if !errors.Is(err, errUnhealthy) {
		_, _ = fmt.Fprintln(p.ErrOut, "error:", err)
	}
	return 1
}

func (p *plugin) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-peercache",
		Short: "Show, check and measure PeerCacheClusters",
		Long: "Show, check and measure PeerCacheClusters. Five commands change something in the Kubernetes cluster: drain and\n" +
			"undrain a label of the node that they name, bypass such a label or a field of the PeerCacheCluster, rotate an annotation\n" +
			"of it, and discover runs a pod on each node for some seconds.\n\n" +
			"NAME is a PeerCacheCluster of the namespace; without it, the command applies to all of them.",
		Example:       "  kubectl peercache status -n inference\n  kubectl peercache doctor -n inference",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl peercache"},
		Version:       p.version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.ErrOut)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w: see '%s --help'", err, c.CommandPath())
	})
	p.flags.AddFlags(root.PersistentFlags())
	root.PersistentFlags().VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = !slices.Contains(shownFlags, flag.Name)
	})
	root.PersistentFlags().BoolVarP(&p.allNamespaces, "all-namespaces", "A", false, "PeerCacheClusters of all namespaces")
	for _, id := range []string{groupShow, groupFind, groupOperate, groupSetUp} {
		root.AddGroup(&cobra.Group{ID: id, Title: id + ":"})
	}
	root.AddCommand(p.statusCommand(), p.membersCommand(), p.railsCommand(), p.disksCommand(), p.topCommand(), p.dashboardCommand(),
		p.doctorCommand(), p.benchCommand(), p.drainCommand(), p.undrainCommand(), p.bypassCommand(), p.rotateCommand(), p.injectCommand(), p.discoverCommand(),
		p.bundleCommand(), p.optionsCommand())
	return root
}

// optionsCommand lists the flags that the help of commands leaves out, as kubectl's command of that name does.
func (p *plugin) optionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "options",
		Short:   "List the flags of kubectl that every command takes",
		Example: "  kubectl peercache options",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			all := pflag.NewFlagSet("options", pflag.ContinueOnError)
			command.Root().PersistentFlags().VisitAll(func(flag *pflag.Flag) {
				shown := *flag
				shown.Hidden = false
				all.AddFlag(&shown)
			})
			_, err := fmt.Fprint(p.Out, all.FlagUsages())
			return err
		},
	}
}

// atMostOneName accepts the optional NAME of most commands.
func atMostOneName(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%s takes one NAME, and there are %d: leave NAME out for all PeerCacheClusters of the namespace",
			c.CommandPath(), len(args))
	}
	return nil
}

// exactlyOne accepts one argument. what describes it, and hint says how to find its value.
func exactlyOne(what, hint string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s takes %s, and there are %d: %s", c.CommandPath(), what, len(args), hint)
		}
		return nil
	}
}

// sleep waits for d, or returns the error of the context.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
