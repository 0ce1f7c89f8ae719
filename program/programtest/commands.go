package programtest

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/command/commandtest"
)

// Root makes a program's command line anew, as far as these arguments need it.
type Root func(args ...string) *cobra.Command

// Words checks, for each flag of each command whose value is one of a few words, that the error for another
// word lists all of them, that one with a slip of the finger suggests the right one, and that a shell
// completes them. It fails if there are fewer than least such flags.
func Words(t *testing.T, root Root, least int) {
	t.Helper()
	commandtest.Words(t, root, least)
}

// Completion checks that a shell completes each flag of each command as its value's name in the help says. It
// returns how many flags complete "words", "files", "directories", "extensions" and "nothing".
func Completion(t *testing.T, root Root) map[string]int {
	t.Helper()
	return commandtest.Completion(t, root)
}

// Manual returns the manual pages of a program by their files' names, and checks that groff and mandoc read
// them without a word. CHIVE_INTEROP=1 makes a missing program a failure.
func Manual(t *testing.T, root *cobra.Command) map[string][]byte {
	t.Helper()
	return commandtest.Manual(t, root)
}

// With is what a command needs besides the flag or argument that is wrong.
type With struct {
	Flags []string
	Args  []string // nil: a new path for each
	// Fresh makes the arguments anew for each run, and before it what they name. It counts
	// before Args.
	Fresh func() []string
	// Later are flags that are looked at only after others, which are missing here.
	Later []string
}

// Bad returns values that no flag or argument can have, or that few can, by what the help calls the value. dir
// is an empty directory.
func Bad(t *testing.T, dir string) map[string][]string {
	t.Helper()
	return commandtest.Bad(t, dir)
}

// Mistakes gives each flag and argument of a command each of the bad values, and checks the errors: plain
// words, each thing said once, and the flag or the value named. It returns how many errors there were.
func Mistakes(t *testing.T, root Root, path []string, with With, bad map[string][]string) int {
	t.Helper()
	return commandtest.Values(t, root, path, commandtest.With(with), bad)
}
