package hostile

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

var writeSeeds = flag.Bool("write-seeds", false, "write the seeds to testdata/fuzz")

// do is an operation of a seed, by its name; a "+" before it joins it to the next.
type do struct {
	op      string
	A, B, C byte
}

// fuzzInput is what a target takes.
type fuzzInput struct {
	program []byte
	edits   uint32
}

// seed makes a fuzz input without edits.
func seed[W any](ops table[W], all ...do) fuzzInput {
	var p Program
	for _, d := range all {
		i := Insn{A: d.A, B: d.B, C: d.C}
		if d.op[0] == '+' {
			i.Op, d.op = Joined, d.op[1:]
		}
		i.Op |= ops.Op(d.op)
		p = append(p, i)
	}
	return fuzzInput{program: p.Bytes()}
}

// TestSeeds holds the corpora to the seeds as they are written here.
func TestSeeds(t *testing.T) {
	for target, all := range map[string]map[string]fuzzInput{
		"FuzzRelayStates":     relaySeeds(),
		"FuzzNextHopStates":   nextHopSeeds(),
		"FuzzConfluxStates":   confluxSeeds(),
		"FuzzClientStates":    clientSeeds(),
		"FuzzDirectoryClient": dirSeeds(),
		"FuzzAuthorityStates": authSeeds(),
	} {
		dir := filepath.Join("testdata", "fuzz", target)
		for name, input := range all {
			text := []byte(fmt.Sprintf("go test fuzz v1\n[]byte(%s)\nuint32(%d)\n", strconv.QuoteToASCII(string(input.program)), input.edits))
			file := filepath.Join(dir, name)
			if *writeSeeds {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%s is not what the seed says: %v; go test -run TestSeeds -write-seeds", file, err)
			}
		}
	}
}
