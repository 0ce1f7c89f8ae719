package tord

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/netdir"
)

// nobody answers to a client's links.
func nobody(context.Context, netip.AddrPort) (net.Conn, error) {
	return nil, errors.New("nobody answers")
}

// TestRestUnused: a client that nobody uses is dormant after DormantClientTimeout, unless the options say that it never is.
func TestRestUnused(t *testing.T) {
	c, err := client.New(client.Config{Network: netdir.Public(), Dial: nobody})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, x := range []struct {
		options []control.Line
		relay   *daemon.Settings
		ago     time.Duration
		rests   bool
	}{
		{nil, nil, 23 * time.Hour, false},
		{nil, nil, 25 * time.Hour, true},
		{nil, daemon.NewRelaySettings(), 25 * time.Hour, false},
		{[]control.Line{{Key: "DormantTimeoutEnabled", Value: "0", HasValue: true}}, nil, 25 * time.Hour, false},
		{[]control.Line{{Key: "DormantClientTimeout", Value: "10 minutes", HasValue: true}}, nil, 11 * time.Minute, true},
	} {
		set, err := conf{}.set(x.options)
		if err != nil {
			t.Fatal(err)
		}
		c.Wake()
		tor := &tor{logs: &logs{out: newLines(io.Discard)}}
		tor.restUnused(&plan{conf: set, relay: x.relay}, c, time.Now().Add(x.ago))
		tor.out.end()
		if c.Dormant() != x.rests {
			t.Errorf("%v: dormant after %v: %v", x.options, x.ago, c.Dormant())
		}
	}
	if _, err := (conf{}).set([]control.Line{{Key: "DormantClientTimeout", Value: "9 minutes", HasValue: true}}); err == nil {
		t.Error("it takes nine minutes")
	}
	c.Rest()
	next := &tor{}
	next.keepRest(c)
	if !next.resting.Load() || next.unused.Load() < 0 {
		t.Error("the next client is not dormant")
	}
}
