// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// report is the result of a command. -o json and -o yaml print its exported fields.
type report interface {
	// text writes the report for people.
	text(w io.Writer)
}

// format is the value of -o.
type format string

func (f *format) addTo(command *cobra.Command) {
	command.Flags().VarP(f, "output", "o", "json or yaml; a table when left out")
}

// String, Set and Type implement pflag.Value.
func (f *format) String() string { return string(*f) }

func (f *format) Set(value string) error {
	switch value {
	case "json", "yaml", "":
		*f = format(value)
		return nil
	}
	return fmt.Errorf("%q is not a format: write json or yaml, or leave -o out for a table", value)
}

func (f *format) Type() string { return "format" }

// print writes a report in the format.
func (f *format) print(w io.Writer, r report) error {
	switch *f {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(r)
	case "yaml":
		text, err := yaml.Marshal(r)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	default:
		r.text(inColor(w))
		return nil
	}
}
