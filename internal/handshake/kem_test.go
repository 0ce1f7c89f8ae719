package handshake

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// acvpGroup is a test group of a prompt or of expected results; results carry
// only the numbers and the answers.
type acvpGroup struct {
	TgID         int
	ParameterSet string
	Function     string
	DK           hexBytes
	Tests        []struct {
		TcID          int
		D, Z, M, C, K hexBytes
		EK, DK        hexBytes
	}
}

func loadACVP(t *testing.T, name string) (groups []acvpGroup) {
	f, err := os.Open("testdata/acvp/" + name + ".json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ TestGroups []acvpGroup }
	if err := json.NewDecoder(z).Decode(&file); err != nil {
		t.Fatal(err)
	}
	return file.TestGroups
}

func setOf(t *testing.T, name string) PQSet {
	k := Named("pq" + strings.TrimPrefix(name, "ML-KEM-"))
	if k == nil {
		t.Fatal(name)
	}
	return k.Set
}

// All 180 of NIST's vectors, through the functions that the handshakes use.
func TestACVP(t *testing.T) {
	n := 0
	want := loadACVP(t, "keyGen-expectedResults")
	for g, group := range loadACVP(t, "keyGen-prompt") {
		set := setOf(t, group.ParameterSet)
		for i, c := range group.Tests {
			var k kemKey
			ek, err := k.generate(bytes.NewReader(append(bytes.Clone(c.D), c.Z...)), set)
			if err != nil {
				t.Fatal(err)
			}
			dk, err := k.sk.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			w := want[g].Tests[i]
			if c.TcID != w.TcID || !bytes.Equal(ek, w.EK) || !bytes.Equal(dk, w.DK) {
				t.Errorf("key generation %d", c.TcID)
			}
			n++
		}
	}
	want = loadACVP(t, "encapDecap-expectedResults")
	for g, group := range loadACVP(t, "encapDecap-prompt") {
		set := setOf(t, group.ParameterSet)
		for i, c := range group.Tests {
			w := want[g].Tests[i]
			if group.Function == "encapsulation" {
				ct, ss, err := encapsulate(bytes.NewReader(c.M), set, c.EK)
				if err != nil {
					t.Fatal(err)
				}
				if c.TcID != w.TcID || !bytes.Equal(ct, w.C) || !bytes.Equal(ss, w.K) {
					t.Errorf("encapsulation %d", c.TcID)
				}
			} else {
				sk, err := pqSets[set].scheme.UnmarshalBinaryPrivateKey(group.DK)
				if err != nil {
					t.Fatal(err)
				}
				k := kemKey{set: set, sk: sk}
				ss, err := k.decapsulate(c.C)
				if err != nil || !bytes.Equal(ss, w.K) {
					t.Errorf("decapsulation %d: %v", c.TcID, err)
				}
			}
			n++
		}
	}
	if n != 180 {
		t.Errorf("%d vectors, not 180", n)
	}
}

func TestPQSet(t *testing.T) {
	sizes := map[PQSet][4]int{PQ512: {928, 832}, PQ768: {1312, 1152}, PQ1024: {1696, 1632}}
	for s, want := range sizes {
		if hybrid(s).skinLen() != want[0] || hybrid(s).replyLen() != want[1] {
			t.Errorf("%v: %d and %d bytes", s, hybrid(s).skinLen(), hybrid(s).replyLen())
		}
		if k := s.Kind(); k == nil || k.Set != s || k.Name != s.String() || k.Type != PQHandshakeBase+cell.HandshakeType(s) {
			t.Errorf("handshake of %v: %+v", s, k)
		}
	}
	for _, s := range []PQSet{0, 4, 0xff} {
		if s.Kind() != nil || s.EncapsulationKeyLen() != 0 || s.CiphertextLen() != 0 {
			t.Errorf("set %d has a handshake", uint8(s))
		}
	}
	for _, name := range []string{"", "none", "768", "pq769"} {
		if Named(name) != nil {
			t.Errorf("%q was accepted", name)
		}
	}
}

// The decapsulation key is gone from memory after its one use.
func TestWipe(t *testing.T) {
	for set := PQ512; set <= PQ1024; set++ {
		var k kemKey
		ek, err := k.generate(rand.Reader, set)
		if err != nil {
			t.Fatal(err)
		}
		v := reflect.ValueOf(k.sk).Elem()
		own := unsafe.Slice((*byte)(k.skPointer()), v.Type().Size())
		var memory [][]byte
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Pointer {
				for j := range f.Type().Elem().NumField() {
					if k := f.Type().Elem().Field(j).Type.Kind(); k == reflect.Pointer || k == reflect.Slice || k == reflect.Interface {
						t.Fatal("the library's key has pointers that wipe does not follow")
					}
				}
				memory = append(memory, unsafe.Slice((*byte)(f.UnsafePointer()), f.Type().Elem().Size()))
			}
		}
		if len(memory) == 0 || len(memory[0]) < 256 {
			t.Fatal("where is the secret?")
		}
		ct, ss, err := encapsulate(rand.Reader, set, ek)
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.decapsulate(ct)
		if err != nil || !bytes.Equal(got, ss) {
			t.Fatal("decapsulation", err)
		}
		for _, m := range append(memory, own) {
			if !bytes.Equal(m, make([]byte, len(m))) {
				t.Errorf("%v: secrets are left", set)
			}
		}
		if _, err := k.decapsulate(ct); !fault.Is(err, fault.Local) {
			t.Error("a key was used twice")
		}
		k.wipe() // of what is wiped: nothing
	}
}

func (k *kemKey) skPointer() unsafe.Pointer { return reflect.ValueOf(k.sk).UnsafePointer() }

// FIPS 203, section 7.2: a key whose coefficients are not below q is refused.
func TestEncapsulationKeyCheck(t *testing.T) {
	for set := PQ512; set <= PQ1024; set++ {
		var k kemKey
		ek, _ := k.generate(rand.Reader, set)
		for _, at := range []int{0, 3, 300, len(ek) - 32 - 3} {
			bad := bytes.Clone(ek)
			bad[at], bad[at+1], bad[at+2] = 0xff, 0xff, 0xff
			if _, _, err := encapsulate(rand.Reader, set, bad); !fault.Is(err, fault.Protocol) {
				t.Errorf("%v: coefficient at %d: %v", set, at, err)
			}
		}
		for _, n := range []int{0, 1, len(ek) - 1} {
			if _, _, err := encapsulate(rand.Reader, set, ek[:n]); !fault.Is(err, fault.Protocol) {
				t.Errorf("%v: %d bytes: %v", set, n, err)
			}
		}
	}
}
