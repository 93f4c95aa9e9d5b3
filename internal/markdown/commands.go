// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"regexp"
	"strings"
)

var (
	continued = regexp.MustCompile(`\\\n\s*`)
	spaces    = regexp.MustCompile(`\s+`)
)

// Commands returns the commands of a page that begin with this program and have arguments, in blocks and in code. Continued lines
// are joined.
func Commands(text, program string) (commands []string) {
	pattern := regexp.MustCompile("(?m)(?:^\\s*(?:\\$ )?|`)(" + program + " [^`\n]+)")
	for _, match := range pattern.FindAllStringSubmatch(continued.ReplaceAllString(text, " "), -1) {
		command, _, _ := strings.Cut(match[1], " #")
		commands = append(commands, spaces.ReplaceAllString(strings.TrimSpace(command), " "))
	}
	return commands
}
