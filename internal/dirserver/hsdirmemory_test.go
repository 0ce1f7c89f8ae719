package dirserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
)

// TestHSDirCostIsTrue: what descriptors count is what they take. Small ones through an address each cost the most
// beside their texts.
func TestHSDirCostIsTrue(t *testing.T) {
	if raceDetector {
		t.Skip("memory is not what it is otherwise")
	}
	live := func() int64 {
		runtime.GC()
		runtime.GC() // the first one has emptied the pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const n = 600
	var bodies [][]byte
	for range n {
		bodies = append(bodies, newHSService(t).descriptor(1, when))
	}
	w := newHSWorld(t, 1<<30)
	defer w.Close()
	before := live()
	for i, body := range bodies {
		r := &Request{Method: "POST", Path: HSPublishPath, Body: body}
		if got := w.Handle(context.Background(), Peer{Addr: relayAddr(i), Tunnelled: true, MultiHop: true}, r).Status; got != 200 {
			t.Fatal(got)
		}
	}
	heap := live() - before
	runtime.KeepAlive(bodies)
	_, counted := w.Held()
	texts := int64(len(w.texts.of)) * blockSize
	t.Logf("%d bytes of texts, and each descriptor %d beside, %d counted", texts, heap/n, (counted-texts)/n)
	if r := float64(counted-texts) / float64(heap); r < 0.8 || r > 1.5 {
		t.Errorf("each descriptor takes %d bytes beside its text, and %d are counted", heap/n, (counted-texts)/n)
	}
}

// TestHSDirClose: a closed directory has nothing, counts nothing and takes nothing.
func TestHSDirClose(t *testing.T) {
	base := outside(t)
	w := newHSWorld(t, 1<<30)
	s := newHSService(t)
	if got := w.post(s.descriptor(1, w.now)); got != 200 {
		t.Fatal(got)
	}
	if outside(t) == base {
		t.Error("a descriptor takes no memory")
	}
	w.Close()
	w.Close()
	w.holds(0)
	if n := outside(t); n != base {
		t.Errorf("%d bytes are left", n-base)
	}
	if got := w.post(s.descriptor(2, w.now)); got != 400 || w.get(s.path()) != nil {
		t.Errorf("after the end: %d", got)
	}
	w.holds(0)
}

// TestHSDirAnswerCounts: who asks for a descriptor and does not read it holds a copy, which counts until they go.
func TestHSDirAnswerCounts(t *testing.T) {
	w := newHSWorld(t, 1<<30)
	defer w.Close()
	s := newHSService(t)
	body := s.descriptor(1, w.now)
	if got := w.post(body); got != 200 {
		t.Fatal(got)
	}
	kept := w.mem.Used()
	server := New(Config{Docs: new(Memory), Extra: w.Handle, Memory: w.mem})
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		peer := farPeer
		v := server.room.enter(peer, server.rank(peer.Addr))
		server.serve(context.Background(), there, v)
	}()
	if _, err := fmt.Fprintf(here, "GET %s HTTP/1.0\r\n\r\n", s.path()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(here, make([]byte, 10)); err != nil { // it is being sent
		t.Fatal(err)
	}
	if held := w.mem.Used() - kept; held < int64(len(body)+requestCost) {
		t.Errorf("an answer of %d bytes counts %d, with the request's own %d", len(body), held, requestCost)
	}
	rest, err := io.ReadAll(here)
	if err != nil || !bytes.HasSuffix(rest, body) {
		t.Errorf("another answer: %v", err)
	}
	<-done
	if w.mem.Used() != kept {
		t.Errorf("%d bytes are left", w.mem.Used()-kept)
	}
}
