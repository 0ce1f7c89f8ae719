package nodelist

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/devp2p"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// signer returns a key by a number.
func signer(i int) ed25519.PrivateKey {
	seed := sha256.Sum256(fmt.Append(nil, "signer", i))
	return ed25519.NewKeyFromSeed(seed[:])
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// record returns a signed record of a node by a number.
func record(t testing.TB, id int, seq uint64, onion bool) *enode.Node {
	t.Helper()
	seed := sha256.Sum256(fmt.Append(nil, "node", id))
	key, err := crypto.ToECDSA(seed[:])
	if err != nil {
		t.Fatal(err)
	}
	var r enr.Record
	r.SetSeq(seq)
	if onion {
		address, err := chive.OnionAddress(public(signer(1000 + id)))
		if err != nil {
			t.Fatal(err)
		}
		r.Set(devp2p.Onion3(address))
	}
	r.Set(enr.TCP(30303))
	if err := enode.SignV4(&r, key); err != nil {
		t.Fatal(err)
	}
	n, err := enode.New(enode.ValidSchemes, &r)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// list makes a signed list of three nodes.
func list(t testing.TB, keys ...ed25519.PrivateKey) []byte {
	t.Helper()
	l, err := New([]*enode.Node{record(t, 1, 1, true), record(t, 2, 5, true), record(t, 3, 1, true)}, now, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	text, err := l.Sign(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestList makes, signs and verifies a list; of several records of a node, it has the newest.
func TestList(t *testing.T) {
	l, err := New([]*enode.Node{record(t, 1, 1, true), record(t, 2, 5, true), record(t, 1, 3, true), record(t, 2, 4, true)}, now, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	text, err := l.Sign(signer(1), signer(2))
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 2; i++ {
		got, err := Verify(text, []ed25519.PublicKey{public(signer(9)), public(signer(i))}, now)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Published.Equal(now) || !got.Expires.Equal(now.Add(24*time.Hour)) || len(got.Nodes) != 2 {
			t.Errorf("%v", got)
		}
		for _, n := range got.Nodes {
			if want := map[enode.ID]uint64{record(t, 1, 1, true).ID(): 3, record(t, 2, 1, true).ID(): 5}[n.ID()]; n.Seq() != want {
				t.Errorf("a node has the record %d, not %d", n.Seq(), want)
			}
		}
	}
	if again, err := l.Sign(signer(1), signer(2)); err != nil || !bytes.Equal(again, text) {
		t.Error("the same list is another text")
	}
	empty, err := New(nil, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = empty.Sign(signer(1)); err != nil {
		t.Fatal(err)
	}
	if got, err := Verify(text, []ed25519.PublicKey{public(signer(1))}, now); err != nil || len(got.Nodes) != 0 {
		t.Errorf("an empty list: %v", err)
	}
}

// TestNewRefuses makes no list of what has no place in one.
func TestNewRefuses(t *testing.T) {
	good := record(t, 1, 1, true)
	for name, c := range map[string]struct {
		nodes []*enode.Node
		valid time.Duration
		want  string
	}{
		"no onion":  {[]*enode.Node{good, record(t, 2, 1, false)}, time.Hour, "node 2"},
		"no record": {[]*enode.Node{enode.NewV4(good.Pubkey(), nil, 1, 0)}, time.Hour, "node 1"},
		"no time":   {nil, 0, "valid"},
		"too long":  {nil, MaxValid + time.Second, "366 days"},
	} {
		if _, err := New(c.nodes, now, c.valid); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := &List{Published: now, Expires: now.Add(time.Hour)}
	if _, err := l.Sign(); err == nil {
		t.Error("a list without a signature")
	}
}

// TestVerifyRefuses changes a list in each way, and keeps nothing of it.
func TestVerifyRefuses(t *testing.T) {
	text := string(list(t, signer(1)))
	lines := strings.SplitAfter(text, "\n")
	lines = lines[:len(lines)-1]
	trusted := []ed25519.PublicKey{public(signer(1))}
	// resigned has other lines, and a good signature.
	resigned := func(change func([]string) []string) string {
		body := strings.Join(change(append([]string(nil), lines[:6]...)), "")
		return fmt.Sprintf("%ssignature %x %x\n", body, public(signer(1)), ed25519.Sign(signer(1), []byte(body)))
	}
	with := func(i int, line string) func([]string) []string {
		return func(l []string) []string { l[i] = line; return l }
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":           {"", "no list"},
		"html":            {"<html>", "no list"},
		"another version": {strings.Replace(text, "nodes 1", "nodes 2", 1), "no list"},
		"no signature":    {strings.Join(lines[:6], ""), "no signature"},
		"no nodes left":   {strings.Join(append(lines[:3:3], lines[6]), ""), "signature 1 is wrong"},
		"a node less":     {strings.Join(append(lines[:5:5], lines[6]), ""), "signature 1 is wrong"},
		"a later end":     {strings.Replace(text, "expires 2026-11-30", "expires 2026-12-30", 1), "signature 1 is wrong"},
		"after it":        {text + "enr:x\n", "signature 2"},
		"half a line":     {text[:len(text)-3], "64 bytes"},
		"no key":          {strings.Join(lines[:6], "") + "signature x y\n", "hexadecimal digits"},
		"many":            {text + strings.Repeat(lines[6], maxSignatures), "more than 16 signatures"},
		"large":           {text + strings.Repeat("x", MaxBytes), "bytes"},
		"not UTC numbers": {resigned(with(1, "published yesterday\n")), "line 2"},
		"no end":          {resigned(with(2, "enr:x\n")), "line 3"},
		"ends before":     {resigned(with(2, "expires 2026-11-28T12:00:00Z\n")), "not valid for a time"},
		"a poisoned one":  {resigned(with(3, strings.Replace(lines[3], "enr:-", "enr:-A", 1))), "line 4"},
		"no onion":        {resigned(with(3, record(t, 9, 1, false).String()+"\n")), "line 4"},
		"a URL":           {resigned(with(3, record(t, 9, 1, false).URLv4()+"\n")), "line 4"},
		"twice":           {resigned(with(4, lines[3])), "line 5: a second record"},
		"an empty line":   {resigned(with(4, "\n")), "line 5"},
		"no times":        {resigned(func(l []string) []string { return l[:1] }), "no times"},
	} {
		if l, err := Verify([]byte(c.text), trusted, now); err == nil || l != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Verify([]byte(text), []ed25519.PublicKey{public(signer(2))}, now); !errors.Is(err, ErrSignature) {
		t.Errorf("a key that is not trusted: %v", err)
	}
	if _, err := Verify([]byte(text), nil, now); !errors.Is(err, ErrSignature) {
		t.Errorf("no trusted key: %v", err)
	}
	for name, at := range map[string]time.Time{"in the future": now.Add(-2 * time.Hour), "ended on": now.Add(24 * time.Hour)} {
		if _, err := Verify([]byte(text), trusted, at); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Verify([]byte(text), trusted, now.Add(-time.Minute)); err != nil {
		t.Errorf("a clock that is a minute behind: %v", err)
	}
}

// TestKeyFile makes a key, reads it again, and replaces none.
func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	key, err := MakeKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ReadKey(path); err != nil || !again.Equal(key) {
		t.Errorf("read again: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v", err)
	}
	if _, err := MakeKey(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a key was replaced: %v", err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKey(path); err == nil {
		t.Error("a key of one letter")
	}
	if _, err := ParseKey("5f"); err == nil {
		t.Error("a public key of one byte")
	}
}

// FuzzVerify reads any text: what is taken has a good signature, and says the same when it is
// written again.
func FuzzVerify(f *testing.F) {
	good := list(f, signer(1), signer(2))
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := Verify(text, []ed25519.PublicKey{public(signer(1))}, now)
		if err != nil {
			return
		}
		again, err := l.Sign(signer(1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(again, []ed25519.PublicKey{public(signer(1))}, now); err != nil {
			t.Fatal(err)
		}
	})
}
