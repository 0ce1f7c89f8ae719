package layer

import (
	"io"
	"testing"

	"github.com/chivenet/chive/internal/cell"
)

// The published vectors are held to by the form that this CPU uses; the others
// run the same tests here.
func TestForms(t *testing.T) {
	all := forms
	t.Cleanup(func() { forms = all })
	for i := range all[1:] {
		forms = all[i+1:]
		for name, f := range map[string]func(*testing.T){
			"wide block": TestCGOWideBlock, "update": TestCGOUpdate, "relay": TestCGORelay,
			"relay originate": TestCGORelayOriginate, "client originate": TestCGOClientOriginate,
			"mixed paths": TestMixedPaths, "tampered": TestTampered,
		} {
			t.Run(forms[0].name+"/"+name, f)
		}
	}
}

// Every form does what the reference does, over long chains of cells and new
// keys, with payloads and keys of any kind.
func TestUIVAgainstSlow(t *testing.T) {
	for _, f := range forms {
		for _, s := range []sense{encrypts, decrypts} {
			rnd := keyStream("uiv against slow")
			var keys [uivKeyLen]byte
			for round := range 12 {
				switch round {
				case 0: // all zero
				case 1:
					for i := range keys {
						keys[i] = 0xff
					}
				default:
					io.ReadFull(rnd, keys[:])
				}
				got, want := f.make(s), &slowUIV{sense: s}
				got.setKeys(&keys)
				want.setKeys(&keys)
				compareUIV(t, f.name, got, want, rnd)
			}
		}
	}
}

func compareUIV(t *testing.T, name string, got, want uiv, rnd io.Reader) {
	t.Helper()
	var gotChain, wantChain, gotNonce, wantNonce [16]byte
	for n := range 8 {
		// The payload stands in a larger buffer at every distance from a cache
		// line's start; what surrounds it must stay.
		var frame, was [cell.PayloadLen + 128]byte
		io.ReadFull(rnd, frame[:])
		at := (7*n + 5) % 64
		p := (*[cell.PayloadLen]byte)(frame[at:])
		switch n {
		case 1:
			clear(p[:])
		case 2:
			for i := range p {
				p[i] = 0xff
			}
		}
		was = frame
		cmd := cell.Command(n * 37)
		q := *p
		got.crypt(&gotChain, cmd, p)
		want.crypt(&wantChain, cmd, &q)
		if *p != q || gotChain != wantChain {
			t.Fatalf("%s: cell %d differs", name, n)
		}
		*p = [cell.PayloadLen]byte(was[at:])
		if frame != was {
			t.Fatalf("%s: wrote outside the payload", name)
		}
		if n%3 == 2 {
			got.rekey(&gotNonce)
			want.rekey(&wantNonce)
			if gotNonce != wantNonce {
				t.Fatalf("%s: nonce differs", name)
			}
		}
	}
}

// FuzzUIV looks for a key and payload on which a form differs from the
// reference.
func FuzzUIV(f *testing.F) {
	f.Add(make([]byte, uivKeyLen), make([]byte, 16), byte(3), make([]byte, cell.PayloadLen))
	f.Fuzz(func(t *testing.T, k, h []byte, cmd byte, body []byte) {
		var keys [uivKeyLen]byte
		var chain [16]byte
		var plain [cell.PayloadLen]byte
		copy(keys[:], k)
		copy(chain[:], h)
		copy(plain[:], body)
		for _, s := range []sense{encrypts, decrypts} {
			want, c, p := &slowUIV{sense: s, keys: keys}, chain, plain
			var nonce [16]byte
			want.crypt(&c, cell.Command(cmd), &p)
			want.rekey(&nonce)
			for _, form := range forms {
				u, d, q := form.make(s), chain, plain
				var n [16]byte
				u.setKeys(&keys)
				u.crypt(&d, cell.Command(cmd), &q)
				u.rekey(&n)
				if c != d || p != q || n != nonce {
					t.Fatalf("%s differs", form.name)
				}
			}
		}
	})
}
