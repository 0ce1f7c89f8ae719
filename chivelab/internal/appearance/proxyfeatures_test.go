package appearance

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

// TestBursts: what comes within a short time is one burst.
func TestBursts(t *testing.T) {
	at := time.Unix(1000, 0)
	k := &conn{}
	for _, r := range []struct{ after, size int }{{0, 10}, {5, 20}, {50, 7}, {69, 1}, {200, 3}} {
		k.records = append(k.records, record{at.Add(time.Duration(r.after) * time.Millisecond), r.size})
	}
	if got := bursts(k); !slices.Equal(got, []int{30, 8, 3}) {
		t.Errorf("%v", got)
	}
}

// TestCompareProxied: clients that knock more often at a dead bridge differ, and alike ones do not.
func TestCompareProxied(t *testing.T) {
	start := time.Unix(1000, 0)
	made := func(subject string, gaps ...int) *proxied {
		x := &proxied{subject: subject, dead: true, marks: []mark{{markStart, start}}}
		at := start
		for _, g := range gaps {
			at = at.Add(time.Duration(g) * time.Second)
			x.conns = append(x.conns, &conn{opened: at})
		}
		return x
	}
	rows := func(b *proxied) map[string]Row {
		out := map[string]Row{}
		for _, r := range compareProxied([]*proxied{made("a", 1, 2, 4, 8, 16), b}, "a", "b") {
			out[r.Name] = r
		}
		return out
	}
	if r := rows(made("b", 1, 2, 5, 8, 15)); r["dead-links"].Different || r["dead-first"].Different || r["dead-gaps"].Different {
		t.Errorf("%+v", r)
	}
	if r := rows(made("b", slices.Repeat([]int{1}, 20)...)); !r["dead-links"].Different || !r["dead-first"].Different || !r["dead-gaps"].Different {
		t.Errorf("%+v", r)
	}
}

// TestGrave: a dead bridge resets each connection, and counts it.
func TestGrave(t *testing.T) {
	g, err := newGrave()
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	c, err := net.Dial("tcp", g.addr().String())
	if err == nil { // else it was too quick for that
		defer c.Close()
		_, err = io.ReadAll(c)
	}
	if ended(err) != "RST" {
		t.Errorf("it ends with %v", err)
	}
	if n := len(g.seen()); n != 1 {
		t.Errorf("%d connections", n)
	}
}
