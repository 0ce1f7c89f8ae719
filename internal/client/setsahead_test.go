package client

import (
	"bytes"
	"testing"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestSetsReady: where few exits can have conflux sets, one is ready, and where none can, none.
func TestSetsReady(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		without int // of ten relays
		low     string
		ready   int
	}{{0, "", 3}, {10, "", 0}, {2, "", 3}, {6, "", 1}, {6, "cfx_low_exit_threshold=1000", 3}, {2, "cfx_low_exit_threshold=9000", 1}, {9, "cfx_low_exit_threshold=0", 3}} {
		text, seen := []byte(nil), 0
		for line := range bytes.Lines(made.Consensus) {
			if bytes.HasPrefix(line, []byte("pr ")) {
				if seen++; seen%10 < c.without {
					line = bytes.Replace(line, []byte("Conflux=1 "), nil, 1)
				}
			}
			if c.low != "" && bytes.HasPrefix(line, []byte("params ")) {
				line = bytes.Replace(line, []byte("params "), []byte("params "+c.low+" "), 1)
			}
			text = append(text, line...)
		}
		var l netdir.Loader
		d, _, err := l.Consensus(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if share := confluxShare(d); setsReady(d, share) != c.ready {
			t.Errorf("%+v: %d sets with %d of ten thousand exits", c, setsReady(d, share), share)
		}
	}
}

// TestSetNumbers: the consensus says how many legs a set has, and how many more may be launched.
func TestSetNumbers(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 60})
	if err != nil {
		t.Fatal(err)
	}
	for params, want := range map[string]setNumbers{
		"": {3, 10, 2, 5},
		"cfx_num_legs_set=3 cfx_max_unlinked_leg_retry=0 ": {3, 10, 3, 3},
	} {
		text := bytes.Replace(made.Consensus, []byte("\nparams "), []byte("\nparams "+params), 1)
		var l netdir.Loader
		d, _, err := l.Consensus(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := setNumbersOf(d); *got != want {
			t.Errorf("%q: %+v", params, *got)
		}
	}
}
