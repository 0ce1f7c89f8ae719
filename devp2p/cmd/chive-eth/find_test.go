package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/chivenet/chive/devp2p"
)

// TestFindingByPolicy refuses what would leave Tor.
func TestFindingByPolicy(t *testing.T) {
	for _, c := range []struct {
		s      finding
		t      tor
		policy devp2p.Policy
		want   string // in the error; empty: none
		n      int    // services
	}{
		{policy: devp2p.OnlyOnion},
		{s: finding{discv5: "127.0.0.1:0"}, policy: devp2p.OnlyOnion, want: "UDP"},
		{s: finding{discv5: "127.0.0.1:0"}, policy: devp2p.PreferOnion, n: 1},
		{s: finding{trees: []string{"enrtree://x"}}, policy: devp2p.Clearnet, want: "through Tor"},
		{s: finding{trees: []string{"enrtree://x"}}, t: tor{proxy: "unix:/run/tor/socks"}, policy: devp2p.OnlyOnion, want: "Unix socket"},
		{s: finding{trees: []string{"enrtree://x"}}, t: tor{proxy: "127.0.0.1:9050"}, policy: devp2p.OnlyOnion, n: 1},
	} {
		got, err := c.s.services(&c.t, c.policy, t.TempDir(), nil, nil, nil, slog.New(slog.DiscardHandler))
		switch {
		case c.want == "" && (err != nil || len(got) != c.n):
			t.Errorf("%+v: %d services, %v", c.s, len(got), err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v, want %q", c.s, err, c.want)
		}
	}
}
