package appearance

import (
	"crypto/sha256"
	"testing"

	"github.com/chivenet/chive/internal/cell"
)

// TestSplitter finds cells in pieces of every size.
func TestSplitter(t *testing.T) {
	skin := []byte("an onionskin")
	create := cell.Create2{Type: 3, Data: skin}
	var wire []byte
	wire = cell.AppendFixed(wire, 7, cell.CmdCreate2, create.Append(nil))
	wire = cell.AppendVar(wire, 0, cell.CmdVPadding, make([]byte, 100))
	wire = cell.AppendFixed(wire, 7, cell.CmdDestroy, []byte{9})
	for piece := 1; piece <= len(wire); piece += 37 {
		r := newRecorder()
		k := &link{conn: &conn{}}
		s := splitter{r: r, k: k}
		for at := 0; at < len(wire); at += piece {
			s.feed(wire[at:min(len(wire), at+piece)])
		}
		if len(k.cells) != 3 || k.cells[0].cmd != cell.CmdCreate2 || k.cells[1].cmd != cell.CmdVPadding || k.cells[2].body[0] != 9 {
			t.Fatalf("pieces of %d: %v", piece, k.cells)
		}
		if at, ok := r.skins[sha256.Sum256(skin)]; !ok || at != (spot{k, 7}) {
			t.Errorf("pieces of %d: the onionskin arrived at %v", piece, at)
		}
		all := r.circuits(k)
		if len(all) != 1 || all[0].reason != 9 || all[0].destroyed.IsZero() {
			t.Errorf("pieces of %d: circuits %v", piece, all)
		}
	}
}

// TestRecords finds records of TLS in pieces of every size.
func TestRecords(t *testing.T) {
	wire := append([]byte{recordHandshake, 3, 1, 0, 3}, "abc"...)
	for _, n := range []int{50, 300, 1} {
		wire = append(append(wire, recordOfData, 3, 3, byte(n>>8), byte(n)), make([]byte, n)...)
	}
	for piece := 1; piece <= len(wire); piece++ {
		k := &conn{}
		w := &records{r: newRecorder(), k: k}
		for at := 0; at < len(wire); at += piece {
			w.feed(wire[at:min(len(wire), at+piece)])
		}
		if string(k.hello) != "abc" || len(k.records) != 3 || k.records[0].size != 50 || k.records[1].size != 300 || k.records[2].size != 1 {
			t.Fatalf("pieces of %d: %q, %v", piece, k.hello, k.records)
		}
	}
}

func TestDocument(t *testing.T) {
	hex := "0123456789ABCDEF0123456789ABCDEF01234567"
	for path, want := range map[string]string{
		"/tor/status-vote/current/consensus-microdesc/" + hex + "+" + hex + ".z": "/tor/status-vote/current/consensus-microdesc/HEX+....z",
		"/tor/keys/fp/" + hex:                  "/tor/keys/fp/HEX",
		"/tor/micro/d/abcdefghijkl-mnop/q+r.z": "/tor/micro/d/DIGEST.z",
		"/tor/hs/3/abc/def":                    "/tor/hs/3/DIGEST",
		"/tor/status-vote/current/consensus-microdesc/AB1234+ABCDEF.z": "/tor/status-vote/current/consensus-microdesc/SIX+SIX.z",
	} {
		if got := document(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
