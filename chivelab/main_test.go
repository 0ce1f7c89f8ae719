package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	insideNamespace()
	testscript.Main(m, map[string]func(){"chivelab": main})
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
