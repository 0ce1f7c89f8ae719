package tord

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

func TestGuardEvents(t *testing.T) {
	good := guard.GuardInfo{Listed: true, Allowed: true, Reachable: "maybe"}
	with := func(f func(*guard.GuardInfo)) guard.GuardInfo {
		g := good
		f(&g)
		return g
	}
	up := with(func(g *guard.GuardInfo) { g.Reachable = "yes" })
	down := with(func(g *guard.GuardInfo) { g.Reachable = "no" })
	gone := with(func(g *guard.GuardInfo) { g.Listed = false })
	for _, c := range []struct {
		was   guard.GuardInfo
		known bool
		now   guard.GuardInfo
		want  string
	}{
		{guard.GuardInfo{}, false, good, "NEW"},
		{guard.GuardInfo{}, false, up, "NEW UP"},
		{good, true, good, ""},
		{good, true, up, "UP"},
		{up, true, down, "DOWN"},
		{up, true, good, ""},
		{good, true, gone, "BAD"},
		{gone, true, good, "GOOD"},
	} {
		if got := strings.Join(guardEvents(c.was, c.known, c.now), " "); got != c.want {
			t.Errorf("%+v to %+v: %q, want %q", c.was, c.now, got, c.want)
		}
	}
}

func TestBuildTimeLine(t *testing.T) {
	s := cbt.Status{Usage: 1500 * time.Millisecond, Close: time.Minute, Observations: 7}
	if got := buildTimeLine(s, false); got != "COMPUTED TOTAL_TIMES=7 TIMEOUT_MS=1500 CLOSE_MS=60000" {
		t.Error(got)
	}
	if got := buildTimeLine(s, true); !strings.HasPrefix(got, "RESET ") {
		t.Error(got)
	}
}

// TestStatuses: each relay has an entry in C tor's form, and only changed ones are changed.
func TestStatuses(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 5, ValidAfter: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	entries, bandwidths := 0, 0
	for l := range statuses(d.All()) {
		f := strings.Fields(l)
		if f[0] == "w" {
			bandwidths++
		}
		if f[0] != "r" {
			continue
		}
		r := d.Relay(entries)
		id, err := base64.RawStdEncoding.DecodeString(f[2])
		md, err2 := base64.RawStdEncoding.DecodeString(f[3])
		digest, rsa := r.MicrodescDigest(), r.RSA()
		if entries++; len(f) != 9 || err != nil || err2 != nil || f[1] != r.Nickname() || string(id) != string(rsa[:]) || string(md) != string(digest[:20]) || f[6] != r.IPv4().Addr().String() {
			t.Errorf("%q", l)
		}
	}
	if entries != d.Len() || bandwidths != d.Len() {
		t.Errorf("%d entries and %d bandwidths of %d", entries, bandwidths, d.Len())
	}
	if got := slices.Collect(changedRelays(d, nil)); len(got) != d.Len() {
		t.Errorf("%d relays are new", len(got))
	}
	if !none(statuses(changedRelays(d, d))) {
		t.Error("relays have changed by themselves")
	}
}

// TestCarriedLine: a CIRC_BW event has what is new since the last one, and nothing new is no event.
func TestCarriedLine(t *testing.T) {
	was := circuit.Carried{Read: 509, Written: 1018, DeliveredRead: 20, OverheadRead: 478, DeliveredWritten: 10, OverheadWritten: 986}
	now := circuit.Carried{Read: 1527, Written: 1018, DeliveredRead: 420, OverheadRead: 1074, DeliveredWritten: 10, OverheadWritten: 986}
	at := time.Date(2026, 5, 1, 12, 0, 0, 7000, time.UTC)
	want := "ID=5 READ=1018 WRITTEN=0 TIME=2026-05-01T12:00:00.000007 DELIVERED_READ=400 OVERHEAD_READ=596 DELIVERED_WRITTEN=0 OVERHEAD_WRITTEN=0"
	if got := carriedLine(5, was, now, at); got != want {
		t.Error(got)
	}
	if got := carriedLine(5, now, now, at); got != "" {
		t.Error(got)
	}
	now.Written += 509
	now.Flow = flow.State{Cwnd: 124, SlowStart: true, RTT: 80 * time.Millisecond, MinRTT: 75 * time.Millisecond}
	if got := carriedLine(5, was, now, at); !strings.HasSuffix(got, "OVERHEAD_WRITTEN=0 SS=1 CWND=124 RTT=80 MIN_RTT=75") {
		t.Error(got)
	}
}

// TestBandwidths: the newest 300 seconds are kept, in their order.
func TestBandwidths(t *testing.T) {
	var b bandwidths
	if got := b.text(); got != "" {
		t.Error(got)
	}
	for i := range uint64(maxBandwidths + 2) {
		b.add(i, 2*i)
	}
	if got := b.text(); !strings.HasPrefix(got, "2,4 3,6 ") || !strings.HasSuffix(got, " 301,602") || strings.Count(got, ",") != maxBandwidths {
		t.Error(got)
	}
}

// told keeps the events that are told.
type told []string

func (*told) wants(string) bool { return true }
func (l *told) tell(event, text string) {
	*l = append(*l, event+" "+text[:strings.LastIndex(text, " ")])
}

// TestMeters: a stream that begins and ends between two looks is told of, once, and so is what a circuit carried after the last look; a
// stream that is older than the wish is not, nor is another client's.
func TestMeters(t *testing.T) {
	var l told
	var m meters
	c, other := new(client.Client), new(client.Client)
	step := func(c *client.Client, s client.StreamReport) { m.streamStep(&l, c, &s) }
	step(c, client.StreamReport{ID: 1, Step: client.StreamClosed, Read: 5})
	step(c, client.StreamReport{ID: 2, Step: client.StreamNew})
	step(c, client.StreamReport{ID: 2, Step: client.StreamOpened, Read: 1})
	step(other, client.StreamReport{ID: 2, Step: client.StreamClosed, Read: 4})
	step(c, client.StreamReport{ID: 2, Step: client.StreamClosed, Read: 30, Written: 7})
	step(c, client.StreamReport{ID: 2, Step: client.StreamClosed, Read: 30, Written: 7})
	step(c, client.StreamReport{ID: 3, Step: client.StreamNew})
	step(c, client.StreamReport{ID: 3, Step: client.StreamClosed})
	step(other, client.StreamReport{ID: 4, Step: client.StreamNew})
	step(other, client.StreamReport{ID: 4, Step: client.StreamClosed, Read: 1})
	over := client.CircuitReport{ID: 9, Step: client.CircuitClosed, Carried: circuit.Carried{Read: 1018}}
	m.circuitOver(&l, other, &over) // nothing was counted
	m.carried = map[uint64]circuit.Carried{9: {Read: 509}}
	m.circuitOver(&l, c, &over)
	m.circuitOver(&l, other, &over)
	want := []string{"STREAM_BW 2 7 30", "STREAM_BW 4 0 1"}
	if len(l) != 3 || !slices.Equal(l[:2], want) || !strings.HasPrefix(l[2], "CIRC_BW ID=9 READ=509 WRITTEN=0 ") {
		t.Errorf("%q", l)
	}
}
