package main

import (
	"strings"
	"testing"
)

// TestBenchCircuitUnknown: processor time that cannot be told apart is not
// told, rather than told to be none.
func TestBenchCircuitUnknown(t *testing.T) {
	var b strings.Builder
	root := rootCommand()
	root.SetArgs([]string{"bench", "circuit", "--in-process", "--count", "2", "--hops", "1"})
	root.SetOut(&b)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) > 4 && f[0] == "hop" && f[len(f)-3] != "-" {
			t.Errorf("the relays' time in %q", line)
		}
	}
	if !strings.Contains(out, "\nhop 1 ") || !strings.Contains(out, "in its process") {
		t.Error(out)
	}
}
