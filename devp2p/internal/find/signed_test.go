package find

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodelist"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
)

// publisher serves a text, as an HTTP client's other end.
type publisher struct {
	mu   sync.Mutex
	text []byte // guarded by mu
	code int    // guarded by mu
	err  error  // guarded by mu
}

func (p *publisher) RoundTrip(*http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	return &http.Response{StatusCode: p.code, Body: io.NopCloser(bytes.NewReader(p.text))}, nil
}

func (p *publisher) set(text []byte, code int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.code, p.err = text, code, err
}

// signedList makes a list of one node.
func signedList(t *testing.T, key ed25519.PrivateKey, at time.Time) ([]byte, enode.ID) {
	t.Helper()
	address, err := chive.OnionAddress(key.Public().(ed25519.PublicKey)) // any key will do
	if err != nil {
		t.Fatal(err)
	}
	n := nodetest.Peer(t, devp2p.Onion3(address), enr.TCP(1))
	l, err := nodelist.New([]*enode.Node{n}, at, 30*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	text, err := l.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	return text, n.ID()
}

// TestLists gets a list again and again: what is wrong is refused with a word in the log, without the
// URL, and tried again soon; a list that is older than the one before is refused, too.
func TestLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
		other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize))
		var p publisher
		var said bytes.Buffer
		dir := t.TempDir()
		kept, err := OpenNewest(dir)
		if err != nil {
			t.Fatal(err)
		}
		lists := Lists{URLs: []string{"https://lists.example/secret"}, Client: &http.Client{Transport: &p}, Keys: []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}, Newest: kept,
			Log: slog.New(slog.NewTextHandler(&said, nil))}
		found := make(map[enode.ID]int)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		p.set(nil, 0, errors.New("no circuit"))
		go func() {
			done <- lists.Run(ctx, func(n *enode.Node, _ string) error { found[n.ID()]++; return nil })
		}()
		wait := func(d time.Duration) {
			time.Sleep(d) // virtual time
			synctest.Wait()
		}
		// refused expects that a list is refused, with a reason.
		refused := func(want string) {
			t.Helper()
			if len(found) != 0 || !strings.Contains(said.String(), want) || strings.Contains(said.String(), "secret") {
				t.Errorf("%d nodes; want %q in the log: %s", len(found), want, said.String())
			}
			said.Reset()
		}
		synctest.Wait()
		refused("no circuit")
		p.set(nil, 404, nil)
		wait(listMin)
		refused("404")
		stranger, _ := signedList(t, other, time.Now())
		p.set(stranger, 200, nil)
		wait(2 * listMin)
		refused("none of the trusted keys")
		p.set(bytes.Repeat([]byte("x"), nodelist.MaxBytes+10), 200, nil)
		wait(4 * listMin)
		refused("more than")
		good, id := signedList(t, key, time.Now())
		p.set(good, 200, nil)
		wait(8 * listMin)
		if found[id] != 1 {
			t.Errorf("a good list: %d nodes, %s", len(found), said.String())
		}
		clear(found)
		old, _ := signedList(t, key, time.Now().Add(-time.Hour))
		p.set(old, 200, nil)
		wait(listAgain)
		refused("was set back")
		newer, id := signedList(t, key, time.Now())
		p.set(newer, 200, nil)
		wait(listMin)
		if found[id] != 1 {
			t.Errorf("a newer list: %d nodes, %s", len(found), said.String())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		// After a restart, too.
		clear(found)
		said.Reset()
		p.set(good, 200, nil)
		if lists.Newest, err = OpenNewest(dir); err != nil {
			t.Fatal(err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		go func() {
			done <- lists.Run(ctx, func(n *enode.Node, _ string) error { found[n.ID()]++; return nil })
		}()
		synctest.Wait()
		refused("was set back")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestListsMistakes refuses URLs that would be read in the clear.
func TestListsMistakes(t *testing.T) {
	for _, u := range []string{"http://lists.example/", "http://127.0.0.1/", "https://", "ftp://lists.example/", "http://%zz"} {
		l := Lists{URLs: []string{u}, Client: http.DefaultClient, Log: slog.New(slog.DiscardHandler)}
		if err := l.Run(t.Context(), nil); err == nil {
			t.Errorf("%s is taken", u)
		}
	}
	if err := (Lists{}).Run(t.Context(), nil); err == nil {
		t.Error("no client")
	}
}
