package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// TestDemo runs the demonstration as "chive-eth demo" does.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("short: no network")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := (&demo{out: &out, logs: io.Discard}).run(ctx); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"The first relay has it", "The second relay has it", "onion: policy only-onion"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it did not say %q:\n%s", want, &out)
		}
	}
}
