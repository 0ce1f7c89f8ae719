// Package labtest has helpers for tests that need programs of other projects.
package labtest

import (
	"os"
	"testing"
)

// Need skips the test, and says why, if the error says that a program is
// missing; with CHIVE_INTEROP=1 it fails instead, so that a machine that should
// have the programs cannot pass without them. It skips in short mode.
func Need(t testing.TB, what string, err error) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: nothing against other programs")
	}
	if err == nil {
		return
	}
	if os.Getenv("CHIVE_INTEROP") == "1" {
		t.Fatalf("%s: %v (CHIVE_INTEROP=1 makes this a failure)", what, err)
	}
	t.Skipf("SKIPPED, NOTHING WAS TESTED: %s: %v", what, err)
}
