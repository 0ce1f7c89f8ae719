package layer

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"testing"

	"github.com/chivenet/chive/internal/cell"
)

// The vectors keep the nested arrays of their source; at walks into one.
type vec []any

func (v vec) at(path ...int) any {
	var x any = []any(v)
	for _, i := range path {
		x = x.([]any)[i]
	}
	return x
}

func (v vec) hex(path ...int) []byte {
	b, err := hex.DecodeString(v.at(path...).(string))
	if err != nil {
		panic(err)
	}
	return b
}

func cgoVectors(t *testing.T, name string) (vs []vec) {
	b, err := os.ReadFile("testdata/cgo.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(all[name], &vs); err != nil || len(vs) == 0 {
		t.Fatal(name, err)
	}
	return vs
}

func uivOf(s sense, keys []byte) uiv { return newUIV(s, (*[uivKeyLen]byte)(keys)) }

// state makes a cgo from (K, N, T') at a path of a vector.
func (v vec) state(s sense, path ...int) cgo {
	at := func(i int) []byte { return v.hex(append(append([]int{}, path...), i)...) }
	return cgo{uiv: uivOf(s, at(0)), nonce: [16]byte(at(1)), tPrime: [16]byte(at(2))}
}

func (v vec) payload(t, c []byte) *[cell.PayloadLen]byte {
	p := new([cell.PayloadLen]byte)
	copy(p[copy(p[:], t):], c)
	return p
}

// same compares a state with (K, N, T') of a vector: keys by what they do.
func (v vec) same(t *testing.T, s sense, c *cgo, path ...int) {
	t.Helper()
	want := v.state(s, path...)
	if c.nonce != want.nonce || c.tPrime != want.tPrime {
		t.Error("nonce or T' differs")
	}
	var p, q [cell.PayloadLen]byte
	c.Encrypt(3, &p)
	want.Encrypt(3, &q)
	if p != q {
		t.Error("keys differ")
	}
}

func TestCGOWideBlock(t *testing.T) {
	for i, v := range cgoVectors(t, "UIV_TEST_VECTORS") {
		tweak := v.hex(2)
		chain := [16]byte(tweak)
		p := v.payload(v.hex(3), v.hex(4))
		s := v.sense(0)
		uivOf(s, v.hex(1)).crypt(&chain, cell.Command(tweak[16]), p)
		if *p != *v.payload(v.hex(5, 0), v.hex(5, 1)) {
			t.Errorf("vector %d", i)
		}
		selector := v.hex(5, 0) // the encrypted X_L, on either side
		if s == decrypts {
			selector = v.hex(3)
		}
		if !bytes.Equal(chain[:], selector) {
			t.Errorf("vector %d: chain", i)
		}
	}
}

// A decryption whose X_L is the nonce selects by the nonce, and so does the
// encryption that yields it.
func TestCGOUpdate(t *testing.T) {
	for i, v := range cgoVectors(t, "UIV_UPDATE_TEST_VECTORS") {
		var p, plain [cell.PayloadLen]byte
		copy(p[:], v.hex(1))
		for _, s := range []sense{decrypts, encrypts} {
			u := uivOf(s, v.hex(0))
			var chain, nonce [16]byte
			u.crypt(&chain, 3, &p)
			if s == decrypts {
				plain = p
			}
			u.rekey(&nonce)
			if !bytes.Equal(nonce[:], v.hex(2, 1)) {
				t.Errorf("vector %d: nonce", i)
			}
			var got, want [cell.PayloadLen]byte
			chain = [16]byte{}
			u.crypt(&chain, 3, &got)
			chain = [16]byte{}
			uivOf(s, v.hex(2, 0)).crypt(&chain, 3, &want)
			if got != want {
				t.Errorf("vector %d: keys", i)
			}
			p = plain
		}
	}
}

func TestCGORelay(t *testing.T) {
	for i, v := range cgoVectors(t, "CGO_RELAY_TEST_VECTORS") {
		st := v.state(encrypts, 1)
		cmd := cell.Command(v.hex(2)[0])
		p := v.payload(v.hex(3), v.hex(4))
		c := &st
		if v.at(0).(bool) {
			r := &cgoRelayBackward{st}
			r.Encrypt(cmd, p)
			c = &r.cgo
		} else {
			r := &cgoRelayForward{st}
			r.Open(cmd, p)
			c = &r.cgo
		}
		v.same(t, encrypts, c, 5, 0)
		if *p != *v.payload(v.hex(5, 1, 0), v.hex(5, 1, 1)) {
			t.Errorf("vector %d", i)
		}
	}
}

func TestCGORelayOriginate(t *testing.T) {
	for i, v := range cgoVectors(t, "CGO_RELAY_ORIGINATE_TEST_VECTORS") {
		r := &cgoRelayBackward{v.state(encrypts, 0)}
		p := v.payload(make([]byte, 16), v.hex(2))
		r.Originate(cell.Command(v.hex(1)[0]), p)
		v.same(t, encrypts, &r.cgo, 3, 0)
		if *p != *v.payload(v.hex(3, 1, 0), v.hex(3, 1, 1)) || !bytes.Equal(r.Tag(), p[:16]) {
			t.Errorf("vector %d", i)
		}
	}
}

func TestCGOClientOriginate(t *testing.T) {
	for i, v := range cgoVectors(t, "CGO_CLIENT_ORIGINATE_TEST_VECTORS") {
		var hops [3]cgoClientForward
		for h := range hops {
			hops[h].cgo = v.state(decrypts, 0, h)
		}
		target := int(v.at(1).(float64)) - 1
		cmd := cell.Command(v.hex(2)[0])
		p := v.payload(make([]byte, 16), v.hex(3))
		hops[target].Originate(cmd, p)
		for h := target - 1; h >= 0; h-- {
			hops[h].Encrypt(cmd, p)
		}
		for h := range hops {
			v.same(t, decrypts, &hops[h].cgo, 4, 0, h)
		}
		if *p != *v.payload(v.hex(4, 1, 0), v.hex(4, 1, 1)) {
			t.Errorf("vector %d", i)
		}
	}
}

// TestCGORendezvous: with the same key material, the client of an onion service has the
// layers of a relay's client, and the service those of the relay.
func TestCGORendezvous(t *testing.T) {
	keys := make([]byte, 2*(uivKeyLen+cgoTagLen)+20)
	if _, err := io.ReadFull(keyStream("rendezvous"), keys); err != nil {
		t.Fatal(err)
	}
	client, err := NewCGORendezvous(bytes.NewReader(keys), false)
	if err != nil {
		t.Fatal(err)
	}
	relay, err := NewCGORelay(bytes.NewReader(keys))
	if err != nil {
		t.Fatal(err)
	}
	service, err := NewCGORendezvous(bytes.NewReader(keys), true)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := NewCGOClient(bytes.NewReader(keys))
	if err != nil {
		t.Fatal(err)
	}
	if client.KH != [20]byte{} || service.KH != [20]byte{} || client.Format != cell.RelayV1 || service.Format != cell.RelayV1 {
		t.Errorf("%x %x %v %v", client.KH, service.KH, client.Format, service.Format)
	}
	for i := range 5 {
		p := [cell.PayloadLen]byte{100: byte(i)}
		client.Forward.Originate(cell.CmdRelay, &p)
		if !relay.Forward.Open(cell.CmdRelay, &p) || p[100] != byte(i) || !bytes.Equal(client.Forward.Tag(), relay.Forward.Tag()) {
			t.Fatalf("message %d of the client", i)
		}
		service.Forward.Originate(cell.CmdRelay, &p)
		if !theirs.Backward.Open(cell.CmdRelay, &p) || p[100] != byte(i) || !bytes.Equal(service.Forward.Tag(), theirs.Backward.Tag()) {
			t.Fatalf("message %d of the service", i)
		}
	}
	for n := range len(keys) {
		for _, s := range []bool{false, true} {
			if _, err := NewCGORendezvous(bytes.NewReader(keys[:n]), s); err == nil {
				t.Fatalf("%d bytes of keys are enough", n)
			}
		}
	}
}
