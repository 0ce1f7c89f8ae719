package deploy

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/metrics"
)

// TestWatch: the monitor writes what a node says at each tick, and that a node is not up which says nothing of use.
func TestWatch(t *testing.T) {
	labtest.NoLeaks(t)
	reg := new(metrics.Registry)
	n := reg.Counter(`cells_total{to="a b"}`, "cells")
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = reg.WritePrometheus(w); n.Inc() }))
	defer good.Close()
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "no metrics") }))
	defer bad.Close()
	absent := httptest.NewServer(http.NotFoundHandler())
	defer absent.Close()
	var nodes []Watched
	for name, s := range map[string]*httptest.Server{"good": good, "bad": bad, "absent": absent} {
		w, err := ParseWatched(name + "=" + strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, w)
	}
	ticks, dir, done := make(chan time.Time), t.TempDir(), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- Watch(ctx, nodes, ticks, dir) }()
	ticks <- time.Time{}
	ticks <- time.Time{} // the second look is written
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, MetricsName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range rows[1:] {
		got[r[1]+" "+r[2]] += r[3]
	}
	if v := got[`good cells_total{to="a b"}`]; !strings.HasPrefix(v, "01") || !strings.HasPrefix(got["good up"], "11") || !strings.HasPrefix(got["bad up"], "00") || !strings.HasPrefix(got["absent up"], "00") {
		t.Error(got)
	}
}

func TestParseWatched(t *testing.T) {
	for _, s := range []string{"", "a", "=10.0.0.1:1", "a=10.0.0.1", "a=b:1"} {
		if _, err := ParseWatched(s); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
	if w, err := ParseWatched("a=10.0.0.1:1"); err != nil || w != (Watched{"a", netip.MustParseAddrPort("10.0.0.1:1")}) {
		t.Error(w, err)
	}
}

// TestTarget: what is sent comes back, and is counted; the end of the context ends open connections.
func TestTarget(t *testing.T) {
	labtest.NoLeaks(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	reg := new(metrics.Registry)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- ServeTarget(ctx, l, reg) }()
	one, two := dialTarget(t, l), dialTarget(t, l)
	fmt.Fprint(one, "hello")
	one.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(one); string(b) != "hello" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	fmt.Fprint(two, "x") // it is served, and stays
	if _, err := io.ReadFull(two, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := two.Read(make([]byte, 1)); err == nil {
		t.Error("the connection stays")
	}
	if n := reg.Counter("deploy_target_connections_total", "").Value(); n != 2 {
		t.Error(n, "connections")
	}
	if n := reg.Counter("deploy_target_bytes_total", "").Value(); n != 6 {
		t.Error(n, "bytes")
	}
}

func dialTarget(t *testing.T, l net.Listener) net.Conn {
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
