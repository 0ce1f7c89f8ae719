package clientpage

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/page"
)

// secret is a destination. It is wherever a client may name one to its own program: in errors.
const secret = "secret.example:443"

var errSecret = errors.New("connect to " + secret)

// fake is a client that says what the test wants.
type fake struct {
	status  chive.Status
	metrics func(io.Writer) error
	events  chan chive.Event

	mu      sync.Mutex // guards what follows
	stopped int
}

func (f *fake) Status() chive.Status { return f.status }

func (f *fake) Subscribe(kinds chive.EventKinds) (<-chan chive.Event, func()) {
	if kinds != chive.CircuitEvents|chive.StreamEvents {
		panic("other events")
	}
	return f.events, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.stopped++
	}
}

func (f *fake) WriteMetricsJSON(w io.Writer) error { return f.metrics(w) }

// first and second are fingerprints.
var first, second, third = strings.Repeat("1", 40), strings.Repeat("2", 40), strings.Repeat("3", 40)

func newFake() *fake {
	f := &fake{events: make(chan chive.Event)}
	f.status = chive.Status{
		Network: "test", Started: time.Unix(1_700_000_000, 0), Read: 10, Written: 20, Channels: 1, Circuits: 2, Streams: 2,
		Guards: []chive.GuardStatus{{Fingerprint: first, Nickname: "one", Reachable: "yes", Confirmed: true, Usable: true}, {Fingerprint: third, Reachable: "no"}},
		Open: []chive.CircuitStatus{
			{ID: 7, Path: []string{first, second, third}, Nicknames: []string{"one", "", "three"}, Countries: []string{"de", "??", "fr"},
				Hops: []chive.HopProtection{{Handshake: "pq768", PQ: "pq768", Carriage: "A", Layer: "cgo"}, {Handshake: "ntor-v3", Layer: "tor1"}, {Handshake: "ntor-v3", PQ: "pq512", Carriage: "B", Layer: "cgo"}}},
			{ID: 8, Path: []string{first}},
		},
		Carried: []chive.StreamStatus{{ID: 1, Circuit: 7, Read: 3, Written: 4}, {ID: 2, Circuit: 7, Read: 5, Written: 6}, {ID: 3, Circuit: 99, Read: 1000}},
	}
	f.metrics = func(w io.Writer) error {
		s := metrics.Snapshot{
			Counters: []metrics.CounterValue{{Name: "chive_cells_in_total", Value: 1}, {Name: "chive_cells_out_total", Value: 2}, {Name: "chive_link_in_bytes_total", Value: 3}, {Name: "chive_link_out_bytes_total", Value: 4}, {Name: "other", Value: 9}},
			Gauges:   []metrics.GaugeValue{{Name: "chive_circuits_open", Value: 5}, {Name: "chive_streams_open", Value: 6}, {Name: "chive_channels_open", Value: 7}, {Name: "chive_cells_queued", Value: 8}},
		}
		return json.NewEncoder(w).Encode(&s)
	}
	return f
}

// TestFigures: each figure is the metric of its name, and metrics that cannot be read are no zeros.
func TestFigures(t *testing.T) {
	f := newFake()
	got, err := Figures(f)
	if want := (&page.Figures{CellsIn: 1, CellsOut: 2, BytesIn: 3, BytesOut: 4, Circuits: 5, Streams: 6, Links: 7, Queued: 8}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for what, broken := range map[string]func(io.Writer) error{
		"an error":  func(io.Writer) error { return errSecret },
		"no JSON":   func(w io.Writer) error { _, err := w.Write([]byte("{")); return err },
		"other one": func(w io.Writer) error { _, err := w.Write([]byte(`{"counters":7}`)); return err },
	} {
		f.metrics = broken
		if got, err := Figures(f); err == nil || got != nil {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
		s := State(f)
		if me := s.Nodes[0]; me.Figures != nil || me.Note != "its metrics cannot be read" {
			t.Errorf("%s: %+v", what, me)
		}
	}
}

// TestCircuits: streams are added up by circuit, what protects a hop stands at it, and what the client does not know is empty.
func TestCircuits(t *testing.T) {
	f := newFake()
	got := Circuits("me", &f.status, func(fp string) string { return "node " + fp[:1] })
	want := []page.Circuit{
		{ID: 7, Client: "me", Streams: 2, Read: 8, Written: 10, Hops: []page.Hop{
			{Node: "node 1", Label: "one", Country: "de", Handshake: "pq768", PQ: "pq768", Carriage: "A", Layer: "cgo"},
			{Node: "node 2", Label: "22222222", Country: "??", Handshake: "ntor-v3", Layer: "tor1"},
			{Node: "node 3", Label: "three", Country: "fr", Handshake: "ntor-v3", PQ: "pq512", Carriage: "B", Layer: "cgo"}}},
		{ID: 8, Client: "me", Hops: []page.Hop{{Node: "node 1", Label: "11111111"}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// TestState: a relay is one node, whichever lists name it, with one link for each pair; and the client can end nothing, and
// follow nothing.
func TestState(t *testing.T) {
	s := State(newFake())
	names := map[string]page.Node{}
	for _, n := range s.Nodes {
		if _, twice := names[n.Name]; twice {
			t.Errorf("%s twice", n.Name)
		}
		names[n.Name] = n
		if n.CanEnd || n.Access != nil {
			t.Errorf("%+v", n)
		}
	}
	if len(names) != 4 || names[first].Role != "guard" || names[first].Country != "de" || names[first].Note != "reachable: yes, confirmed" || names[second].Role != "middle" ||
		names[third].Note != "reachable: no, not usable now" || names[own].Figures == nil {
		t.Errorf("%+v", s.Nodes)
	}
	if want := []page.Link{{A: own, B: first}, {A: first, B: second}, {A: second, B: third}}; !reflect.DeepEqual(s.Links, want) {
		t.Errorf("%+v", s.Links)
	}
	if s.Kind != page.Client || s.CanTrace || s.Emulation != nil {
		t.Errorf("%+v", s)
	}
}

// TestFollow: events come without the errors, which may name a destination; a subscription ends with its reader.
func TestFollow(t *testing.T) {
	f := newFake()
	ctx, cancel := context.WithCancel(t.Context())
	var got []page.Event
	done := make(chan struct{})
	go func() {
		Follow(ctx, "me", f, func(e page.Event) { got = append(got, e) })
		close(done)
	}()
	at := time.Unix(1_700_000_000, 0)
	for _, e := range []chive.Event{
		&chive.BootstrapEvent{},
		&chive.CircuitEvent{Time: at, ID: 1, State: chive.CircuitOpen, Purpose: "streams", Hops: 3, Took: []time.Duration{time.Millisecond, 5 * time.Millisecond}, Err: errSecret},
		&chive.StreamEvent{Time: at, ID: 2, Circuit: 1, State: chive.StreamFailed, Err: errSecret},
		&chive.LostEvent{Time: at},
	} {
		f.events <- e
	}
	close(f.events) // the client has closed: the page may go on
	select {
	case <-done:
		t.Error("it ended with the client")
	default:
	}
	cancel()
	<-done
	want := []page.Event{
		{Time: at, Kind: "circuit", Client: "me", ID: 1, State: "open", Purpose: "streams", Hops: 3, TookMS: 5},
		{Time: at, Kind: "stream", Client: "me", ID: 2, State: "failed", Circuit: 1},
		{Time: at, Kind: "lost", Client: "me"},
	}
	if !reflect.DeepEqual(got, want) || f.stopped != 1 {
		t.Errorf("%+v, and %d subscriptions ended", got, f.stopped)
	}
}
