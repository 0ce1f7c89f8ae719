package main

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/command/commandtest"
)

func fresh(...string) *cobra.Command { return rootCommand() }

// TestWords: each flag that has a few words lists them, suggests one, and completes them.
func TestWords(t *testing.T) { commandtest.Words(t, fresh, 10) }

// TestCompletion: a shell completes the values of all flags.
func TestCompletion(t *testing.T) {
	count := commandtest.Completion(t, fresh)
	if count["words"] < 10 || count["files"] < 10 || count["directories"] < 5 || count["extensions"] < 2 || count["nothing"] < 20 {
		t.Errorf("only these flags complete something: %v", count)
	}
}
