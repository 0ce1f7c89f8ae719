package dirserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/netdoc"
)

// hsService makes descriptors of one onion service.
type hsService struct {
	t   testing.TB
	key *cert.ExpandedKey
}

func newHSService(t testing.TB) *hsService {
	t.Helper()
	key, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &hsService{t, key}
}

func (s *hsService) descriptor(revision uint64, now time.Time) []byte {
	s.t.Helper()
	d, err := netdoc.EncodeHSDescriptor(rand.Reader, &netdoc.HSKeys{Blinded: s.key}, revision, &netdoc.HSInner{}, now)
	if err != nil {
		s.t.Fatal(err)
	}
	return d.Text
}

func (s *hsService) path() string {
	id := s.key.Public()
	return "/tor/hs/3/" + base64.RawStdEncoding.EncodeToString(id[:])
}

// hsWorld is an HSDir and the time.
type hsWorld struct {
	*HSDir
	t   testing.TB
	now time.Time
	mem *account.Memory
}

func newHSWorld(t testing.TB, maxBytes int64) *hsWorld {
	w := &hsWorld{t: t, now: when, mem: account.New(1 << 30)}
	w.HSDir = NewHSDir(HSDirConfig{Now: func() time.Time { return w.now }, Memory: w.mem, MaxBytes: func() int64 { return maxBytes }})
	return w
}

var farPeer = Peer{Addr: netip.MustParseAddr("192.0.2.7"), Tunnelled: true, MultiHop: true}

func (w *hsWorld) post(body []byte) int {
	return w.Handle(context.Background(), farPeer, &Request{Method: "POST", Path: HSPublishPath, Body: body}).Status
}

// get returns what is kept; nil: nothing.
func (w *hsWorld) get(path string) []byte {
	w.t.Helper()
	r := w.Handle(context.Background(), farPeer, &Request{Method: "GET", Path: path})
	switch {
	case r.Status == 404:
		return nil
	case r.Status != 200 || len(r.Parts) != 1:
		w.t.Fatalf("%s: %+v", path, r)
	}
	return r.Parts[0].Bytes()
}

// holds checks that the account counts what is kept, and nothing else.
func (w *hsWorld) holds(descriptors int) {
	w.t.Helper()
	n, size := w.Held()
	if n != descriptors || w.mem.Used() != size || n == 0 && size != 0 || w.order.all.Len() != n {
		w.t.Errorf("%d descriptors of %d bytes, %d in order; %d bytes are counted; want %d", n, size, w.order.all.Len(), w.mem.Used(), descriptors)
	}
}

func TestHSDir(t *testing.T) {
	w := newHSWorld(t, 1<<20)
	s := newHSService(t)
	if w.get(s.path()) != nil {
		t.Error("a descriptor from nowhere")
	}
	first, second := s.descriptor(7, w.now), s.descriptor(8, w.now)
	for i, x := range []struct {
		body   []byte
		status int
		kept   []byte
	}{
		{first, 200, first},
		{first, 400, first}, // the same counter
		{second, 200, second},
		{s.descriptor(8, w.now), 400, second},
		{first, 400, second},
	} {
		if got := w.post(x.body); got != x.status {
			t.Errorf("upload %d: %d, not %d", i, got, x.status)
		}
		if !bytes.Equal(w.get(s.path()), x.kept) {
			t.Errorf("upload %d: another descriptor is kept", i)
		}
	}
	w.holds(1)
	if n := w.Stats(); n.Stored.Load() != 2 || n.Refused.Load() != 3 || n.Fetched.Load() != 5 || n.Missed.Load() != 1 {
		t.Errorf("stored %d, refused %d, fetched %d, missed %d", n.Stored.Load(), n.Refused.Load(), n.Fetched.Load(), n.Missed.Load())
	}
	// A client's copy does not change when it goes.
	kept := w.get(s.path())
	w.now = w.now.Add(netdoc.HSLifetime)
	if w.get(s.path()) != nil {
		t.Error("it outlives its lifetime")
	}
	if !bytes.Equal(kept, second) {
		t.Error("what was given has changed")
	}
	w.holds(0)
	// After that a lower counter is welcome: nobody remembers the higher one.
	if got := w.post(s.descriptor(1, w.now)); got != 200 {
		t.Error(got)
	}
}

// TestHSDirOverTime: a descriptor of which the time is over does not stand in the way of
// another one, also before it was swept.
func TestHSDirOverTime(t *testing.T) {
	w := newHSWorld(t, 1<<20)
	s := newHSService(t)
	if got := w.post(s.descriptor(9, w.now)); got != 200 {
		t.Fatal(got)
	}
	w.now = w.now.Add(netdoc.HSLifetime - hsSweep/2)
	w.get(s.path()) // sweeps
	w.now = w.now.Add(hsSweep / 2)
	if got := w.post(s.descriptor(3, w.now)); got != 200 {
		t.Error(got)
	}
	w.holds(1)
	// The certificate of an old descriptor ends before its lifetime does.
	other := newHSService(t)
	old := other.descriptor(1, w.now.Add(-53*time.Hour))
	if got := w.post(old); got != 200 {
		t.Fatal(got)
	}
	w.now = w.now.Add(2 * time.Hour) // certificates count whole hours
	if w.get(other.path()) != nil || w.get(s.path()) == nil {
		t.Error("a descriptor is there although its certificate has expired, or the other is gone")
	}
	if got := w.post(old); got != 400 {
		t.Errorf("with an expired certificate: %d", got)
	}
	w.holds(1)
}

func TestHSDirRefuses(t *testing.T) {
	w := newHSWorld(t, 1<<20)
	s := newHSService(t)
	good := s.descriptor(1, w.now)
	forged := bytes.Clone(good)
	forged[bytes.Index(forged, []byte("revision-counter 1"))+len("revision-counter ")] = '2'
	for name, body := range map[string][]byte{
		"nothing": nil, "no descriptor": []byte("router a 1.2.3.4 1 0 0\n"), "cut": good[:len(good)-5], "twice": append(bytes.Clone(good), good...),
		"another revision counter": forged, "a NUL": append([]byte{0}, good...), "of another version": bytes.Replace(good, []byte("hs-descriptor 3"), []byte("hs-descriptor 2"), 1),
	} {
		if got := w.post(body); got != 400 {
			t.Errorf("%s: %d", name, got)
		}
	}
	ctx := context.Background()
	if got := w.post(good); got != 200 {
		t.Fatal(got)
	}
	for name, peer := range map[string]Peer{
		"one hop": {Addr: farPeer.Addr, Tunnelled: true}, "DirPort": {Addr: farPeer.Addr},
	} {
		for _, r := range []*Request{{Method: "GET", Path: s.path()}, {Method: "POST", Path: HSPublishPath, Body: s.descriptor(2, w.now)}} {
			if got := w.Handle(ctx, peer, r); got == nil || got.Status != 503 || len(got.Parts) > 0 {
				t.Errorf("%s by %s: %+v", r.Method, name, got)
			}
		}
	}
	for _, path := range []string{"/tor/hs/3/", s.path() + "A", s.path()[:len(s.path())-1], s.path() + "=", "/tor/hs/3/" + strings.Repeat("!", 43), "/tor/hs/3/publish"} {
		if w.get(path) != nil {
			t.Errorf("GET %s finds something", path)
		}
	}
	for _, path := range []string{"/tor/hs/3/other", s.path()} {
		if got := w.Handle(ctx, farPeer, &Request{Method: "POST", Path: path, Body: good}); got.Status != 400 {
			t.Errorf("POST to %s: %d", path, got.Status)
		}
	}
	for _, path := range []string{"/tor/hs/2/publish", "/tor/status-vote/current/consensus"} {
		if got := w.Handle(ctx, farPeer, &Request{Method: "GET", Path: path}); got != nil {
			t.Errorf("%s is answered: %+v", path, got)
		}
	}
	w.holds(1)
}

// TestHSDirIsBounded: the descriptors that were downloaded least make room, the oldest
// first, and the newest stays.
func TestHSDirIsBounded(t *testing.T) {
	size := int64(hsSize(len(newHSService(t).descriptor(1, when))))
	w := newHSWorld(t, 3*size+100)
	var all []*hsService
	for range 3 {
		s := newHSService(t)
		if got := w.post(s.descriptor(1, w.now)); got != 200 {
			t.Fatal(got)
		}
		all = append(all, s)
	}
	w.get(all[0].path())
	w.get(all[2].path())
	w.get(all[0].path())
	all = append(all, newHSService(t))
	if got := w.post(all[3].descriptor(1, w.now)); got != 200 {
		t.Fatal(got)
	}
	for i, want := range []bool{true, false, true, true} {
		if got := w.get(all[i].path()) != nil; got != want {
			t.Errorf("descriptor %d is kept: %v", i, got)
		}
	}
	w.holds(3)
	// A new descriptor of a service inherits the count of the old one.
	if got := w.post(all[0].descriptor(2, w.now)); got != 200 {
		t.Fatal(got)
	}
	for range 2 {
		if got := w.post(newHSService(t).descriptor(1, w.now)); got != 200 {
			t.Fatal(got)
		}
	}
	if w.get(all[0].path()) == nil {
		t.Error("the descriptor that was downloaded most has made room")
	}
	w.holds(3)
	if n := w.Stats().Evicted.Load(); n != 3 {
		t.Errorf("%d are counted as evicted", n)
	}
}

// TestHSDirIsEvicted: descriptors go when peers hold too much.
func TestHSDirIsEvicted(t *testing.T) {
	w := newHSWorld(t, 1<<30)
	for range 20 {
		if got := w.post(newHSService(t).descriptor(1, w.now)); got != 200 {
			t.Fatal(got)
		}
	}
	w.holds(20)
	ctx, cancel := context.WithCancel(context.Background())
	done, told := make(chan struct{}), make(chan int, 100)
	go func() {
		defer close(done)
		w.mem.Run(ctx, nil, func(n int, _ int64) { told <- n })
	}()
	w.mem.SetBound(w.mem.Used() / 2)
	<-told
	cancel()
	<-done
	n, _ := w.Held()
	if n == 0 || n > 10 {
		t.Errorf("%d descriptors are left of 20", n)
	}
	w.holds(n)
}

// TestHSDirOverHTTP: uploads and downloads as they come, with the bound on the size.
func TestHSDirOverHTTP(t *testing.T) {
	w := newHSWorld(t, 1<<20)
	w.now = time.Now()
	s := New(Config{Docs: new(Memory), Extra: w.Handle, MaxUpload: func(path string) int {
		if path == HSPublishPath {
			return netdoc.MaxHSDescriptor
		}
		return 0
	}})
	service := newHSService(t)
	body := service.descriptor(1, w.now)
	request := func(path string, body []byte) string {
		return fmt.Sprintf("POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	}
	if got := status(t, s, farPeer, request(HSPublishPath, body)); got != 200 {
		t.Errorf("upload: %d", got)
	}
	if got := status(t, s, farPeer, "GET "+service.path()+" HTTP/1.0\r\n\r\n"); got != 200 {
		t.Errorf("download: %d", got)
	}
	if got := status(t, s, Peer{Addr: farPeer.Addr}, "GET "+service.path()+" HTTP/1.0\r\n\r\n"); got != 503 {
		t.Errorf("download from a DirPort: %d", got)
	}
	if got := status(t, s, farPeer, request(HSPublishPath, make([]byte, netdoc.MaxHSDescriptor+1))); got != 400 {
		t.Errorf("too large: %d", got)
	}
	// A directory that is no HSDir, such as an authority, takes none and has none.
	none := New(Config{Docs: new(Memory)})
	if got := status(t, none, farPeer, request(HSPublishPath, body)); got != 400 {
		t.Errorf("upload to no HSDir: %d", got)
	}
	if got := status(t, none, farPeer, "GET "+service.path()+" HTTP/1.0\r\n\r\n"); got != 404 {
		t.Errorf("download from no HSDir: %d", got)
	}
}

// TestHSDirLogsNothing: whoever floods an HSDir with bad descriptors writes nothing into its
// log. The metrics count them.
func TestHSDirLogsNothing(t *testing.T) {
	w := newHSWorld(t, 1<<20)
	var log bytes.Buffer
	s := New(Config{Docs: new(Memory), Extra: w.Handle, MaxUpload: func(string) int { return netdoc.MaxHSDescriptor }, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	good := newHSService(t).descriptor(1, w.now)
	at := bytes.LastIndex(good, []byte("signature ")) + len("signature ")
	const each = 20
	for n := range each {
		for _, body := range [][]byte{
			append(bytes.Clone(good[:at+n]), '\n'), // a signature of another length
			append(bytes.Clone(good[:at]), "AAAA\n"...),
			bytes.Repeat([]byte{'x'}, n),
			nil,
		} {
			if got := status(t, s, farPeer, fmt.Sprintf("POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", HSPublishPath, len(body), body)); got != 400 {
				t.Errorf("%q: %d", body, got)
			}
		}
		if got := status(t, s, farPeer, "GET /tor/hs/3/nonsense HTTP/1.0\r\n\r\n"); got != 404 {
			t.Errorf("%d", got)
		}
	}
	if log.Len() > 0 {
		t.Errorf("the log:\n%s", log.Bytes())
	}
	if n := w.Stats().Refused.Load(); n != 4*each {
		t.Errorf("%d are counted", n)
	}
}

// TestHSDirForgetsAddresses: nothing is left of the addresses from which descriptors came when
// these are gone.
func TestHSDirForgetsAddresses(t *testing.T) {
	w := newHSWorld(t, 1<<20)
	if got := w.post(newHSService(t).descriptor(1, w.now)); got != 200 {
		t.Fatal(got)
	}
	w.now = w.now.Add(2 * netdoc.HSLifetime)
	w.get("/tor/hs/3/x")
	w.get(newHSService(t).path()) // sweeps
	w.holds(0)
	a := w.mem.Address(farPeer.Addr)
	a.Close()
	again := w.mem.Address(farPeer.Addr)
	defer again.Close()
	if a == again {
		t.Error("the address has an account for ever")
	}
}
