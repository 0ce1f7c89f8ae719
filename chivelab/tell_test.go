package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestMistakes: what cannot be measured or run is refused at once, and not after minutes.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"bench relay --short --no-namespace --chive x --schedulers=", "scheduler"},
		{"bench onion --short --no-namespace --chive x --schedulers=", "scheduler"},
		{"bench fte --kinds nope", "nope"}, {"bench fte --kinds=", "kind"}, {"bench fte --kinds strict/nope", "nope"}, {"bench fte --formats nope", "nope"},
		{"run --log-format xml", "--log-format"}, {"run --relays 1 --exits 1 --bridges 2", "three relays"},
	} {
		root := rootCommand()
		root.SetArgs(strings.Fields(c.args))
		if err := root.ExecuteContext(t.Context()); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}

// TestTell: a report is in its file although nobody reads the output, and in the output although
// the file cannot be written. Both are errors.
func TestTell(t *testing.T) {
	for name, bad := range map[string]bool{"no reader": false, "no folder": true} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "report.json")
			if bad {
				file = filepath.Join(file, "in-a-file")
			}
			var out output
			out.closed = !bad
			root := rootCommand()
			root.SetArgs([]string{"bench", "circuit", "--in-process", "--count", "1", "--hops", "1", "--json", file})
			root.SetOut(&out)
			err := root.ExecuteContext(t.Context())
			if err == nil || !bad && !errors.Is(err, os.ErrClosed) {
				t.Error(err)
			}
			if b, err := os.ReadFile(file); !bad && (err != nil || !strings.Contains(string(b), `"handshake"`)) {
				t.Errorf("%v: %s", err, b)
			}
			if bad && !strings.Contains(out.String(), "succeeded") {
				t.Error(out.String())
			}
		})
	}
}

// output is a standard output that may be closed.
type output struct {
	strings.Builder
	closed bool
}

func (o *output) Write(b []byte) (int, error) {
	if o.closed {
		return 0, os.ErrClosed
	}
	return o.Builder.Write(b)
}
