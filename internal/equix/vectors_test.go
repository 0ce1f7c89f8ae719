package equix

import (
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Hashes of C tor 0.4.9's own tests (test_crypto.c): the little-endian bytes of H(input).
var hashVectors = []struct {
	seed  string
	input uint64
	hash  string
}{
	{"", 0, "466cc2021c268560"},
	{"a", 0, "b2a110ee695c475c"},
	{"ab", 0, "57c77f7e0d2c1727"},
	{"abc", 0, "ef560991338086d1"},
	{"", 999, "304068b62bc4874e"},
	{"a", 999, "c8b66a8eb4bba304"},
	{"ab", 999, "26c1f7031f0b3645"},
	{"abc", 999, "de84f9d286b39ab5"},
	{"abc", 1<<64 - 1, "f756c266a3cb3b5a"},
}

func TestHashVectors(t *testing.T) {
	for _, v := range hashVectors {
		var p program
		var g generator
		k := newKeyer()
		var key quad
		key, p.key = k.keys([]byte(v.seed))
		if !g.generate(key, &p.code) {
			t.Errorf("seed %q is unusable", v.seed)
			continue
		}
		var got [8]byte
		binary.LittleEndian.PutUint64(got[:], p.slowHash(v.input))
		if hex.EncodeToString(got[:]) != v.hash {
			t.Errorf("H(%d) of seed %q is %x, not %s", v.input, v.seed, got, v.hash)
		}
	}
}

// proofsFile has proofs of work of C tor 0.4.9's own tests. internal/hspow reads more of it.
const proofsFile = "../hspow/testdata/ctor.json"

//go:embed testdata/rules.txt
var rules string

// proof is a challenge and its solution.
type proof struct {
	challenge []byte
	solution  [16]byte
}

func readProofs(t testing.TB) []proof {
	t.Helper()
	text, err := os.ReadFile(proofsFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct {
			Effort                         uint32
			Seed, Blinded, Nonce, Solution string
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var all []proof
	for _, v := range file.Vectors {
		all = append(all, parseProof(t, fmt.Sprintln(v.Blinded, v.Seed, v.Nonce, v.Effort, v.Solution)))
	}
	if len(all) != 20 {
		t.Fatalf("%d proofs, not 20", len(all))
	}
	return all
}

// readRules reads the proofs for fine points of the rules.
func readRules(t testing.TB) []proof {
	t.Helper()
	var all []proof
	for line := range strings.Lines(rules) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, parseProof(t, line))
		}
	}
	if len(all) != 54 {
		t.Fatalf("%d proofs for fine points of the rules, not 54", len(all))
	}
	return all
}

// parseProof reads a blinded identity, a seed, a nonce, an effort and a solution.
func parseProof(t testing.TB, line string) proof {
	t.Helper()
	var blinded, seed, nonce, solution []byte
	var effort uint32
	if _, err := fmt.Sscanf(line, "%x %x %x %d %x", &blinded, &seed, &nonce, &effort, &solution); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	c := slices.Concat([]byte("Tor hs intro v1\x00"), blinded, seed, nonce)
	return proof{binary.BigEndian.AppendUint32(c, effort), [16]byte(solution)}
}

func TestVerifyVectors(t *testing.T) {
	for _, p := range append(readProofs(t), readRules(t)...) {
		if err := Verify(p.challenge, &p.solution); err != nil {
			t.Errorf("solution %x of %x: %v", p.solution, p.challenge, err)
		}
	}
}
