package isolation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

// mayShare is the same rule written out: it compares one field after the other.
func mayShare(a, b Key) bool {
	differ := []struct {
		by     By // zero: always
		differ bool
	}{
		{0, a.By != b.By},
		{0, a.Child != b.Child},
		{0, a.Listener != b.Listener},
		{0, !bytes.Equal(a.Auth[:], b.Auth[:])},
		{ByClientAddr, a.Client.Unmap().Compare(b.Client.Unmap()) != 0},
		{ByProtocol, a.Protocol != b.Protocol},
		{ByDestAddr, a.Host != b.Host},
		{ByDestPort, a.Port != b.Port},
	}
	for _, d := range differ {
		if d.differ && (d.by == 0 || a.By&d.by != 0) {
			return false
		}
	}
	return true
}

// random returns a key whose fields are often equal to those of others.
func random(r *rand.Rand) Key {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	k := Key{
		By: By(r.IntN(16)), Child: uint64(r.IntN(2)), Listener: pick("", "socks0", "socks1"),
		Protocol: pick("socks4", "socks5"), Host: pick("a.example", "b.example"), Port: uint16(r.IntN(2)),
	}
	if a := pick("", "127.0.0.1", "::ffff:127.0.0.1", "127.0.0.2", "::1"); a != "" {
		k.Client = netip.MustParseAddr(a)
	}
	if u := pick("", "u", "v"); u != "" {
		k.Auth = NewAuth(u)
	}
	return k
}

func TestMayShareByReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shared := 0
	for range 200_000 {
		a, b := random(r), random(r)
		if r.IntN(2) == 0 { // b differs from a in one field at most
			c := a
			switch r.IntN(8) {
			case 0:
				c.By = b.By
			case 1:
				c.Child = b.Child
			case 2:
				c.Listener = b.Listener
			case 3:
				c.Auth = b.Auth
			case 4:
				c.Client = b.Client
			case 5:
				c.Protocol = b.Protocol
			case 6:
				c.Host = b.Host
			case 7:
				c.Port = b.Port
			}
			b = c
		}
		want := mayShare(a, b)
		if want {
			shared++
		}
		if a.MayShare(b) != want || b.MayShare(a) != want || a.Trim().MayShare(b) != want || (a.Trim() == b.Trim()) != want {
			t.Fatalf("share is not %v:\n%s\n%s", want, fields(a), fields(b))
		}
	}
	if shared < 10_000 || shared > 190_000 {
		t.Errorf("%d of 200000 pairs share: the test is blind", shared)
	}
}

// fields shows what a Key does not print.
func fields(k Key) string {
	return fmt.Sprint(k.By, k.Child, k.Listener, k.Auth, k.Protocol, k.Client, k.Host, k.Port)
}

func TestTrimKeepsNothingElse(t *testing.T) {
	k := Key{Protocol: "socks5", Client: netip.MustParseAddr("192.0.2.1"), Host: "a.example", Port: 443}
	if k.Trim() != (Key{}) {
		t.Errorf("kept %s", fields(k.Trim()))
	}
	k.By = ByClientAddr | ByProtocol | ByDestAddr | ByDestPort
	if k.Trim() != k {
		t.Errorf("lost some: %s", fields(k.Trim()))
	}
}

func TestNewAuth(t *testing.T) {
	all := [][]string{{}, {""}, {"", ""}, {"ab"}, {"ab", ""}, {"a", "b"}, {"", "ab"}, {"a", "", "b"}, {"\x00"}}
	for i, a := range all {
		if again := NewAuth(a...); NewAuth(a...) != again {
			t.Errorf("%q is not itself", a)
		}
		if NewAuth(a...) == (Auth{}) {
			t.Errorf("%q is like none", a)
		}
		for _, b := range all[:i] {
			if NewAuth(a...) == NewAuth(b...) {
				t.Errorf("%q is like %q", a, b)
			}
		}
	}
}

// TestNothingPrintsAKey: printing or logging a key, or a value that contains one,
// shows nothing of it.
func TestNothingPrintsAKey(t *testing.T) {
	type holder struct{ Isolation Key }
	k := Key{By: 15, Listener: "topsecret", Auth: NewAuth("x"), Protocol: "topsecret", Client: netip.MustParseAddr("192.0.2.77"), Host: "topsecret"}
	var out bytes.Buffer
	for _, v := range []any{k, &k, holder{k}, []Key{k}} {
		fmt.Fprintf(&out, "%v %+v %#v %s %q %x %d\n", v, v, v, v, v, v, v)
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).Info("m", "v", v)
		}
		if err := json.NewEncoder(&out).Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	s := out.String()
	for _, bad := range []string{"topsecret", fmt.Sprintf("%x", "topsecret"), "192.0.2.77", fmt.Sprintf("%x", k.Auth[:4])} {
		if strings.Contains(s, bad) {
			t.Errorf("%q is in %s", bad, s)
		}
	}
	if strings.Count(s, "[scrubbed]") < 4*9 {
		t.Error(s)
	}
}

// TestAuthHasItsFields: credentials of the same lengths are told apart.
func TestAuthHasItsFields(t *testing.T) {
	for _, other := range [][]string{{"user", "secreT"}, {"useR", "secret"}, {"users", "ecret"}, {"", "usersecret"}, {"usersecret"}, {"user", "secret", ""}} {
		if NewAuth(other...) == NewAuth("user", "secret") {
			t.Errorf("%q counts as another user", other)
		}
	}
}

// TestKeepAliveNeedsAuth: only streams with an Auth keep a circuit young.
func TestKeepAliveNeedsAuth(t *testing.T) {
	auth := NewAuth("user", "secret")
	for _, c := range []struct {
		k    Key
		want bool
	}{{Key{KeepAlive: true}, false}, {Key{KeepAlive: true, Auth: auth}, true}, {Key{Auth: auth}, false}, {Key{}, false}} {
		if got := c.k.Trim().KeepAlive; got != c.want {
			t.Errorf("%v with credentials %v: %v", c.k.KeepAlive, c.k.Auth != Auth{}, got)
		}
	}
}
