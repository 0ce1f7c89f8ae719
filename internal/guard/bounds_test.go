package guard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/ident"
)

// TestSampleIsDrawn: a client's sample is drawn by weight, and not in the order of the consensus.
func TestSampleIsDrawn(t *testing.T) {
	d := network(1000)
	for i := range d.relays {
		if i < 500 || i >= 600 {
			d.relays[i].Weight = 0
		}
	}
	m := start(t, d)
	if len(m.cur.sample) == 0 {
		t.Fatal("the sample is empty")
	}
	inOrder := true
	for i, g := range m.cur.sample {
		if g.cur.Weight == 0 {
			t.Errorf("a guard of no weight is in the sample: %d", i)
		}
		inOrder = inOrder && g.id == d.relays[500+i].ID
	}
	if inOrder {
		t.Error("the sample is the head of the list")
	}
}

// sealed is a saved state with a digest that fits its content.
func sealed(t *testing.T, sets string) []byte {
	t.Helper()
	var body bytes.Buffer
	if err := json.Compact(&body, []byte(sets)); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(body.Bytes())
	b, err := json.Marshal(savedFile{Version: stateVersion, SHA256: hex.EncodeToString(sum[:]), Sets: body.Bytes()})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDecodeSealed: a state whose digest is right is refused all the same if its content is wrong.
func TestDecodeSealed(t *testing.T) {
	if sets, err := decode(sealed(t, `{"`+setDefault+`": []}`), epoch); err != nil || len(sets) != 1 {
		t.Fatalf("an empty set: %v", err)
	}
	for _, sets := range []string{`{"other": []}`, `{"` + setDefault + `": [{}]}`, `{"` + setDefault + `": [{"x": 1}]}`, `[]`, `{"` + setDefault + `": 1}`} {
		if got, err := decode(sealed(t, sets), epoch); err == nil {
			t.Errorf("%s: accepted as %v", sets, got)
		}
	}
	if _, err := decode([]byte("{"), epoch); err == nil {
		t.Error("half a file is accepted")
	}
	good := encode(map[string]*set{setDefault: lived(t, &MemStore{}).sets[setDefault]})
	longest := append(good, bytes.Repeat([]byte(" "), maxStateSize-len(good))...)
	if _, err := decode(longest, epoch); err != nil {
		t.Error("the longest file:", err)
	}
	if _, err := decode(append(longest, ' '), epoch); err == nil {
		t.Error("a longer file is accepted")
	}
	file := FileStore(filepath.Join(t.TempDir(), "state"))
	for _, n := range []int{0, 1, 2} {
		if err := os.WriteFile(string(file), make([]byte, maxStateSize+n), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := file.Load(); err != nil || len(b) != maxStateSize+min(n, 1) {
			t.Errorf("%d bytes more than the longest file: %d are read, %v", n, len(b), err)
		}
	}
}

// TestDecodeGuardBounds: the longest names and the greatest counts pass, and no more.
func TestDecodeGuardBounds(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(g *savedGuard)
		ok     bool
	}{
		{"as it is", func(*savedGuard) {}, true},
		{"a nickname of 19", func(g *savedGuard) { g.Nickname = strings.Repeat("a", 19) }, true},
		{"a nickname of 20", func(g *savedGuard) { g.Nickname = strings.Repeat("a", 20) }, false},
		{"a version of 100", func(g *savedGuard) { g.AddedBy = strings.Repeat("a", 100) }, true},
		{"a version of 101", func(g *savedGuard) { g.AddedBy = strings.Repeat("a", 101) }, false},
		{"the greatest count", func(g *savedGuard) { g.Bias.CircAttempts = math.MaxInt32 }, true},
		{"more than that", func(g *savedGuard) { g.Bias.CircAttempts = math.MaxInt32 + 1 }, false},
		{"no number", func(g *savedGuard) { g.Bias.CircAttempts = math.NaN() }, false},
	} {
		g := savedGuard{RSA: relay(1).ID.RSA.String(), AddedAt: epoch, Listed: true}
		c.change(&g)
		if got, err := decodeGuard(&g, epoch); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		} else if c.ok && got.cur.ID != got.id {
			t.Errorf("%s: it is known as %v", c.name, got.cur.ID)
		}
	}
}

// TestDecodeVanguardBounds: the longest file and the largest layer pass, and a member that is none does not.
func TestDecodeVanguardBounds(t *testing.T) {
	layer := func(n int) (l []vanguard) {
		for i := range n {
			l = append(l, vanguard{relay(i).ID.RSA, epoch})
		}
		return l
	}
	good := encodeVanguards([][]vanguard{layer(maxVanguards), nil})
	longest := append(good, bytes.Repeat([]byte(" "), maxStateSize-len(good))...)
	if got, err := decodeVanguards(longest, 2); err != nil || len(got) != 2 || len(got[0]) != maxVanguards {
		t.Error("the longest file:", err)
	}
	bad := strings.Replace(string(encodeVanguards([][]vanguard{layer(1), nil})), relay(0).ID.RSA.String(), "zz", 1)
	var f savedVanguards
	if err := json.Unmarshal([]byte(bad), &f); err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	if err := json.Compact(&body, f.Layers); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(body.Bytes())
	resealed := strings.Replace(bad, f.SHA256, hex.EncodeToString(sum[:]), 1)
	for name, text := range map[string][]byte{
		"longer": append(longest, ' '), "half": good[:len(good)/2], "no identity": []byte(resealed),
		"a large layer": encodeVanguards([][]vanguard{layer(maxVanguards + 1), nil}),
		"nobody":        encodeVanguards([][]vanguard{{{ident.RSAID{}, epoch}}, nil}),
	} {
		if got, err := decodeVanguards(text, 2); err == nil {
			t.Errorf("%s: accepted as %d layers", name, len(got))
		}
	}
}
