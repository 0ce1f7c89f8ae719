package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/command/commandtest"
)

// TestWrongValues gives each flag of each command of the laboratory bad values, and reads what it
// says.
func TestWrongValues(t *testing.T) {
	t.Chdir(t.TempDir())
	with := map[string]commandtest.With{
		"up":            {Flags: []string{"--bridges", "1"}},
		"run":           {Flags: []string{"--bridges", "1"}},
		"bench circuit": {Flags: []string{"--in-process", "--count", "1", "--hops", "1"}, Later: []string{"json", "plots"}},
		"bench client":  {Flags: []string{"--beside-tor"}},
	}
	seen := 0
	commandtest.Each(rootCommand(), func(c *cobra.Command, path []string) {
		n := commandtest.Values(t, fresh, path, with[strings.Join(path, " ")], commandtest.Bad(t, t.TempDir()))
		t.Logf("%s: %d", strings.Join(path, " "), n)
		seen += n
	})
	if seen < 400 {
		t.Errorf("only %d mistakes were found", seen)
	}
}
