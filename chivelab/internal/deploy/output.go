package deploy

import (
	"bytes"
	"slices"
	"strings"
)

// tellLines is how many of a program's last lines an error tells.
const tellLines = 8

// tail returns the last lines of what a program has printed.
func tail(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-tellLines):], "\n")
}

// hasLine tells whether a line of what a program has printed is this.
func hasLine(out []byte, line string) bool {
	return slices.ContainsFunc(bytes.Split(out, []byte("\n")), func(l []byte) bool { return string(bytes.TrimSpace(l)) == line })
}
