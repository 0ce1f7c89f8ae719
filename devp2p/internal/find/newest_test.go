package find

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/devp2p/internal/nodelist"
)

func publisherKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(keys ...ed25519.PrivateKey) (all []ed25519.PublicKey) {
	for _, k := range keys {
		all = append(all, k.Public().(ed25519.PublicKey))
	}
	return all
}

// list is a list without nodes that some publishers have signed.
func list(published time.Time, signers ...ed25519.PrivateKey) *nodelist.List {
	return &nodelist.List{Published: published, Signers: public(signers...)}
}

// TestNewest: an older list is refused after a restart, too, whoever of the trusted has signed it; each URL counts
// by itself, and who is not trusted any more does not count. The file has no URL.
func TestNewest(t *testing.T) {
	dir := t.TempDir()
	one, two := publisherKey(1), publisherKey(2)
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const a, b = "https://a.example/password", "https://b.example/"
	for i, c := range []struct {
		at      string
		trusted []ed25519.PrivateKey
		list    *nodelist.List
		old     bool
	}{
		{a, []ed25519.PrivateKey{one, two}, list(day, one), false},
		{a, []ed25519.PrivateKey{one, two}, list(day, one), false}, // the same again
		{a, []ed25519.PrivateKey{one, two}, list(day.Add(-time.Second), one), true},
		{a, []ed25519.PrivateKey{one, two}, list(day.Add(-time.Second), two), true},
		{a, []ed25519.PrivateKey{one, two}, list(day.Add(-time.Second), one, two), true},
		{b, []ed25519.PrivateKey{one, two}, list(day.Add(-time.Hour), one), false}, // another list of the same publisher
		{b, []ed25519.PrivateKey{one, two}, list(day.Add(-2*time.Hour), one), true},
		{a, []ed25519.PrivateKey{one, two}, list(day.Add(time.Hour), one, two), false},
		{a, []ed25519.PrivateKey{two}, list(day, two), true},
		{a, []ed25519.PrivateKey{one, two}, list(day.Add(2*time.Hour), one), false},
		{a, []ed25519.PrivateKey{two}, list(day.Add(time.Hour), two), false}, // one is not trusted any more
	} {
		n, err := OpenNewest(dir) // as after a restart
		if err != nil {
			t.Fatal(err)
		}
		err = n.take(c.at, public(c.trusted...), c.list)
		if old := (*errOld)(nil); err != nil && !errors.As(err, &old) || (err != nil) != c.old {
			t.Errorf("%d: %v", i, err)
		} else if c.old && !strings.Contains(err.Error(), c.list.Published.Format(time.RFC3339)) {
			t.Errorf("%d: the error does not say which list: %v", i, err)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, newestFile))
	if err != nil || bytes.Contains(raw, []byte("example")) || bytes.Contains(raw, []byte("password")) {
		t.Errorf("%v: %s", err, raw)
	}
}

// TestNewestFile: a file that is cut off or larger than its bound stops the program, and one that cannot be written is
// told; the list is known as long as the program runs.
func TestNewestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, newestFile)
	for _, text := range []string{"", "{", `{"a":{"b":"yesterday"}}`, "[]", strings.Repeat(" ", maxNewest+1)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenNewest(dir); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%.10q: %v", text, err)
		}
	}
	n, err := OpenNewest(filepath.Join(dir, "gone"))
	if err != nil {
		t.Fatal(err)
	}
	key := publisherKey(1)
	err = n.take("https://a.example/", public(key), list(time.Unix(1000, 0), key))
	if lost := (*errNotKept)(nil); !errors.As(err, &lost) {
		t.Error(err)
	}
	err = n.take("https://a.example/", public(key), list(time.Unix(999, 0), key))
	if old := (*errOld)(nil); !errors.As(err, &old) {
		t.Error(err)
	}
}

// TestNewestBounds: what is kept has bounds; the newest stay.
func TestNewestBounds(t *testing.T) {
	var n Newest
	for i := range maxPlaces + 10 {
		if err := n.take(fmt.Sprint("https://", i), public(publisherKey(1)), list(time.Unix(int64(1000+i), 0), publisherKey(1))); err != nil {
			t.Fatal(err)
		}
	}
	at := fmt.Sprint("https://", maxPlaces)
	for i := range maxPublishers + 10 {
		if err := n.take(at, nil, list(time.Unix(int64(5000+i), 0), publisherKey(byte(i+1)))); err != nil {
			t.Fatal(err)
		}
	}
	if len(n.at) != maxPlaces || len(n.at[digestOf(at)]) != maxPublishers || n.at[digestOf("https://9")] != nil || n.at[digestOf("https://10")] == nil {
		t.Errorf("%d URLs, %d publishers", len(n.at), len(n.at[digestOf(at)]))
	}
	if err := n.take(at, public(publisherKey(byte(maxPublishers+10))), list(time.Unix(4000, 0), publisherKey(1))); err == nil {
		t.Error("the newest publisher was forgotten")
	}
}

// TestRedirects: a server sends the question for a list to nowhere that a flag could not name, and not in a circle.
func TestRedirects(t *testing.T) {
	const hidden = "http://" + onion + "/"
	for _, c := range []struct {
		from, to, want string
	}{
		{"https://a.example/", "http://a.example/", "neither https nor an onion"},
		{"https://a.example/", "file:///etc/passwd", "neither https nor an onion"},
		{"https://a.example/", "http://127.0.0.1:8545/", "neither https nor an onion"},
		{"https://a.example/", "https://a.example/", "again and again"},
		{hidden, "https://a.example/", "outside onions"},
		{hidden, "http://a.example/", "neither https nor an onion"},
	} {
		var asked []string
		server := roundTrip(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, r.URL.String())
			return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {c.to}}, Body: http.NoBody, Request: r}, nil
		})
		l := Lists{Client: careful(&http.Client{Transport: server}), Newest: new(Newest)}
		if _, err := l.get(t.Context(), c.from); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), ".example") {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
		if c.from != c.to && len(asked) != 1 || len(asked) > maxRedirects+1 {
			t.Errorf("%s to %s: asked %v", c.from, c.to, asked)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
