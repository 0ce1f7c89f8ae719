package cli

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

func TestMain(m *testing.M) {
	insideNamespace()
	testscript.Main(m, map[string]func(){"chive": func() { Main(Chive(os.Args[1:]...)) }})
}

// TestScripts runs the binary as a user would: each file of testdata/script
// is a session.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_STATE_HOME", e.WorkDir+"/state")
			return nil
		},
	})
}

// TestOneCommand: a command line that names a command has only that one, which is the same as
// among all; any other command line has all of them.
func TestOneCommand(t *testing.T) {
	for _, c := range subcommands {
		have := Chive(c.name, "--help")
		if n := len(have.Commands()); n != 3 { // beside those that say where the laboratory is
			t.Errorf("%s: %d commands", c.name, n)
		}
		if got, want := usageOf(t, have, c.name), usageOf(t, Chive(), c.name); got != want {
			t.Errorf("%s: %s\nand among all: %s", c.name, got, want)
		}
	}
	all := len(Chive().Commands())
	for _, args := range [][]string{{"help", "proxy"}, {"__complete", "pro"}, {"completion", "bash"}, {"prxy"}, {"--help"}} {
		if n := len(Chive(args...).Commands()); n != all {
			t.Errorf("%q: %d commands of %d", args, n, all)
		}
	}
}

// usageOf returns the help of a command.
func usageOf(t *testing.T, root *cobra.Command, name string) string {
	t.Helper()
	c, rest, err := root.Find([]string{name})
	if err != nil || c.Name() != name || len(rest) > 0 {
		t.Fatalf("%s: found %s, %v, %v", name, c.Name(), rest, err)
	}
	return c.UsageString()
}
