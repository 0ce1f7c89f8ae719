package deploy

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
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

// TestMetricsFileIsBounded: a file that is full keeps the first look and those that are evenly apart, over the whole run,
// and nodes are asked only when what they say is kept.
func TestMetricsFileIsBounded(t *testing.T) {
	labtest.NoLeaks(t)
	var asked atomic.Int64
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "n %d\n", asked.Add(1)) }))
	defer node.Close()
	w, err := ParseWatched("node=" + strings.TrimPrefix(node.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	const most, looks = 2000, 300
	ticks, dir, done := make(chan time.Time), t.TempDir(), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- watch(ctx, []Watched{w}, ticks, dir, most) }()
	name := filepath.Join(dir, MetricsName)
	for range looks - 1 {
		ticks <- time.Time{}
		if info, err := os.Stat(name); err != nil || info.Size() > most {
			t.Fatal(info, err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	rows, err := readRows(name, len(metricsHead))
	if err != nil {
		t.Fatal(err)
	}
	all := int(asked.Load())
	if all >= looks {
		t.Errorf("it was asked %d times in %d ticks", all, looks)
	}
	var values []int
	for _, r := range rows {
		if r[2] == "n" {
			n, err := strconv.Atoi(r[3])
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, n)
		}
	}
	if len(values) < 10 || values[0] != 1 || values[len(values)-1] < all-1 || len(rows) != 2*len(values) {
		t.Errorf("%d looks of %d, %d rows: %v", len(values), all, len(rows), values)
	}
	if left, err := filepath.Glob(name + "?*"); err != nil || left != nil {
		t.Error(left, err)
	}
}

// TestLookIsBounded: a file that one look would fill is an error, and a node that says too much is not up.
func TestLookIsBounded(t *testing.T) {
	f, err := newMetricsFile(t.TempDir(), 100)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	f.wants()
	if err := f.add([][]string{{"0", "node", "n", strings.Repeat("1", 100)}}); !errors.Is(err, fault.Resource) {
		t.Error(err)
	}
	if _, err := readMetrics(strings.NewReader(strings.Repeat("n 1\n", maxRows))); err != nil {
		t.Error(err)
	}
	if _, err := readMetrics(strings.NewReader(strings.Repeat("n 1\n", maxRows+1))); err == nil {
		t.Error("all is taken")
	}
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "n %s1\n", strings.Repeat("0", maxMetrics)) // what is left of it when it is cut off is a number, too
	}))
	defer node.Close()
	at := netip.MustParseAddrPort(strings.TrimPrefix(node.URL, "http://"))
	if got := ask(t.Context(), node.Client(), at); len(got) != 1 || got[0] != [2]string{upMetric, "0"} {
		t.Errorf("%d metrics", len(got))
	}
}

// TestThinLooks: looks go whole, by their times.
func TestThinLooks(t *testing.T) {
	var out strings.Builder
	n, err := everySecond(&out, strings.NewReader("seconds,node,metric,value\n0,a,x,1\n0,b,x,2\n1,a,x,3\n2,a,\"x{l=\"\"v\"\"}\",4\n2,b,x,5\n3,a,x,6\n"))
	if want := "seconds,node,metric,value\n0,a,x,1\n0,b,x,2\n2,a,\"x{l=\"\"v\"\"}\",4\n2,b,x,5\n"; err != nil || out.String() != want || n != int64(len(want)) {
		t.Errorf("%d, %v\n%s", n, err, &out)
	}
	if _, err := everySecond(&out, strings.NewReader("seconds\n\"")); err == nil {
		t.Error("a broken file passes")
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
