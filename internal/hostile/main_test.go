package hostile

import (
	"log"
	"os"
	"runtime/debug"
	"testing"
)

// crashFile names a file for what a crash says. The fuzzing engine drops what
// its workers print, and a crash that hangs on the order of goroutines may not
// come again.
const crashFile = "CHIVE_FUZZ_CRASHES"

func TestMain(m *testing.M) {
	if name := os.Getenv(crashFile); name != "" {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err == nil {
			err = debug.SetCrashOutput(f, debug.CrashOptions{})
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	os.Exit(m.Run())
}
