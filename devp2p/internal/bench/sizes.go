package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Sizes say how much a run measures.
type Sizes struct {
	Kinds       []Kind        `json:"kinds"`
	Connections int           `json:"connections"` // of each kind, to a node that is known
	Firsts      int           `json:"firsts"`      // to one that is not known yet
	Bytes       int64         `json:"bytes"`       // of a download
	Downloads   int           `json:"downloads"`
	Rounds      int           `json:"rounds"` // of ping-pong
	Peers       []int         `json:"peers"`  // numbers of peers, rising
	Spread      []int         `json:"spread"` // of these, those at which each peer's share is measured
	While       time.Duration `json:"while_ns"`
	Loads       []int         `json:"loads"`      // of the network, percent
	LinkBytes   int64         `json:"link_bytes"` // of a download over links
}

// Defaults returns a whole run's sizes: those of the report that this one answers, where
// it tells them.
func Defaults() Sizes {
	return Sizes{Kinds: Kinds, Connections: 100, Firsts: 10, Bytes: 100_000_000, Downloads: 10, Rounds: 1000,
		Peers: []int{10, 50, 100, 200}, Spread: []int{10, 100, 200}, While: 10 * time.Second, Loads: []int{10, 50, 90}, LinkBytes: 5_000_000}
}

// Short returns those of a quick look, which takes about two minutes.
func Short() Sizes {
	return Sizes{Kinds: []Kind{Clear, Chive, Tor}, Connections: 5, Firsts: 1, Bytes: 5_000_000, Downloads: 2, Rounds: 50,
		Peers: []int{10}, Spread: []int{10}, While: 2 * time.Second, Loads: []int{50}, LinkBytes: 500_000}
}

// flags are those of chive-eth bench that give these sizes, each after a space.
func (s Sizes) flags() string {
	var b strings.Builder
	like := Defaults()
	if s.Firsts == Short().Firsts {
		like = Short()
		b.WriteString(" --short")
	}
	list := func(a any) string { return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(a), "[]")), ",") }
	for _, f := range []struct{ name, is, was string }{
		{"kinds", list(s.Kinds), list(like.Kinds)},
		{"connections", fmt.Sprint(s.Connections), fmt.Sprint(like.Connections)},
		{"bytes", fmt.Sprint(s.Bytes), fmt.Sprint(like.Bytes)},
		{"rounds", fmt.Sprint(s.Rounds), fmt.Sprint(like.Rounds)},
		{"peers", list(s.Peers) + list(s.Spread), list(like.Peers) + list(like.Spread)},
		{"while", s.While.String(), like.While.String()},
	} {
		if f.is != f.was {
			if f.name == "peers" {
				f.is = list(s.Peers)
			}
			fmt.Fprintf(&b, " --%s %s", f.name, f.is)
		}
	}
	return b.String()
}

// Check names the first mistake.
func (s Sizes) Check() error {
	switch {
	case len(s.Kinds) == 0:
		return fmt.Errorf("no kind is to be measured")
	case s.Connections < 1 || s.Firsts < 1 || s.Downloads < 1 || s.Rounds < 1:
		return fmt.Errorf("connections, downloads and rounds: at least one of each")
	case s.Bytes < 1 || s.LinkBytes < 1:
		return fmt.Errorf("a download has at least one byte")
	case s.While < 10*time.Millisecond:
		return fmt.Errorf("%v is too short to measure anything", s.While)
	case !slices.IsSorted(s.Peers) || len(s.Peers) > 0 && (s.Peers[0] < 1 || s.Peers[len(s.Peers)-1] > MaxPeers):
		return fmt.Errorf("want rising numbers of peers from 1 to %d", MaxPeers)
	}
	for _, k := range s.Kinds {
		if !slices.Contains(Kinds, k) {
			return fmt.Errorf("kind %q", k)
		}
	}
	return nil
}

// onions returns the kinds that are onions.
func (s Sizes) onions() (out []Kind) {
	for _, k := range s.Kinds {
		if k != Clear {
			out = append(out, k)
		}
	}
	return out
}
