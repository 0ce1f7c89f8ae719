package layer

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha3"
	"encoding/hex"
	"encoding/json"
	"hash"
	"os"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// C tor's vectors: a client with three hops sends 51 DATA messages to the
// third; some of the cells as they leave are known.
func TestTor1Vectors(t *testing.T) {
	var v struct {
		Keys  []string
		Seed  string
		Cells map[int]string
	}
	b, err := os.ReadFile("testdata/tor1.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	var client []*Client
	var relay []*Relay
	for _, k := range v.Keys {
		c, err := NewTor1Client(bytes.NewReader([]byte(k)))
		if err != nil {
			t.Fatal(err)
		}
		if string(c.KH[:]) != k[72:92] {
			t.Errorf("KH %q", c.KH)
		}
		r, err := NewTor1Relay(bytes.NewReader([]byte(k)))
		if err != nil {
			t.Fatal(err)
		}
		client, relay = append(client, c), append(relay, r)
	}
	xof := sha3.NewSHAKE256()
	xof.Write([]byte(v.Seed))
	seen := 0
	for n := range 51 {
		var p [cell.PayloadLen]byte
		p[0], p[4], p[9], p[10] = 2, 1, 1, 242 // DATA, stream 1, 498 bytes
		xof.Read(p[11:])
		plain := p
		client[2].Forward.Originate(cell.CmdRelay, &p)
		client[1].Forward.Encrypt(cell.CmdRelay, &p)
		client[0].Forward.Encrypt(cell.CmdRelay, &p)
		if want, ok := v.Cells[n]; ok {
			seen++
			if w, err := hex.DecodeString(want); err != nil || !bytes.Equal(w, p[:]) {
				t.Errorf("cell %d differs", n)
			}
		}
		for i, r := range relay {
			if r.Forward.Open(cell.CmdRelay, &p) != (i == 2) {
				t.Fatalf("cell %d: hop %d recognises wrongly", n, i)
			}
		}
		clear(p[digestOff : digestOff+digestLen])
		if p != plain {
			t.Fatalf("cell %d was not restored", n)
		}
		if !bytes.Equal(client[2].Forward.Tag(), relay[2].Forward.Tag()) || len(relay[2].Forward.Tag()) != 20 {
			t.Fatalf("cell %d: tags differ", n)
		}
	}
	if seen != len(v.Cells) || seen == 0 {
		t.Errorf("%d of %d known cells", seen, len(v.Cells))
	}
}

// A message that looks recognised and is not must leave digest, tag and
// payload as they were.
func TestTor1LooksRecognised(t *testing.T) {
	c, r := pairOf(t, tor1Kind)
	send := func(mark byte) *[cell.PayloadLen]byte {
		p := new([cell.PayloadLen]byte)
		p[20] = mark
		c.Forward.Originate(cell.CmdRelay, p)
		return p
	}
	if !r.Forward.Open(cell.CmdRelay, send(1)) {
		t.Fatal("first message")
	}
	tag := bytes.Clone(r.Forward.Tag())
	for i := range 100 {
		// Recognized is zero, digest is not right: a middle relay sees this once
		// in 65536 cells.
		p := new([cell.PayloadLen]byte)
		p[digestOff], p[40] = 1, byte(i)
		want := *p
		c.Forward.Encrypt(cell.CmdRelay, p)
		if r.Forward.Open(cell.CmdRelay, p) {
			t.Fatal("recognised")
		}
		if *p != want || !bytes.Equal(tag, r.Forward.Tag()) {
			t.Fatal("payload or tag changed")
		}
	}
	if !r.Forward.Open(cell.CmdRelay, send(2)) {
		t.Error("the digest lost its place")
	}
}

func TestTor1ShortKeys(t *testing.T) {
	if _, err := NewTor1Client(bytes.NewReader(make([]byte, 91))); err == nil {
		t.Error("91 bytes of key material were enough")
	}
	if _, err := NewTor1Relay(bytes.NewReader(make([]byte, 71))); err == nil {
		t.Error("71 bytes of key material were enough")
	}
	if _, err := NewTor1Rendezvous(bytes.NewReader(make([]byte, 127)), false); err == nil {
		t.Error("127 bytes of key material were enough")
	}
}

func TestTor1Rendezvous(t *testing.T) {
	k := make([]byte, 128)
	for i := range k {
		k[i] = byte(i)
	}
	c, err := NewTor1Rendezvous(bytes.NewReader(k), false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewTor1Rendezvous(bytes.NewReader(k), true)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		p := [cell.PayloadLen]byte{9: 1, 30: byte(i)}
		c.Forward.Originate(cell.CmdRelay, &p)
		if !s.Backward.Open(cell.CmdRelay, &p) || !bytes.Equal(c.Forward.Tag(), s.Backward.Tag()) {
			t.Fatal("client to service")
		}
		s.Forward.Originate(cell.CmdRelay, &p)
		if !c.Backward.Open(cell.CmdRelay, &p) || p[30] != byte(i) {
			t.Fatal("service to client")
		}
	}
}

// TestNewTor1Refuses: a key of no cipher, and a hash whose state cannot be saved.
func TestNewTor1Refuses(t *testing.T) {
	seed := make([]byte, sha1.Size)
	if one, err := newTor1(sha1.New, seed, make([]byte, 5)); one != nil || !fault.Is(err, fault.Local) {
		t.Errorf("%v, %v", one, err)
	}
	bare := func() hash.Hash { return struct{ hash.Hash }{sha1.New()} }
	if one, err := newTor1(bare, seed, make([]byte, 16)); one != nil || !fault.Is(err, fault.Local) {
		t.Errorf("%v, %v", one, err)
	}
}
