package client

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/stream"
)

// TestEndIsFailure: END answers a BEGIN or a RESOLVE with a failure, whatever reason it gives:
// also zero, which other programs take for success, and reasons that nobody knows.
func TestEndIsFailure(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	for _, reason := range []cell.EndReason{0, cell.EndNotDirectory + 1, 200, 255} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		m := cell.End{Reason: reason}
		l.say(cell.RelayEnd, m.Append(nil))
		var end *stream.EndError
		if conn, err := c.Dial(ctx, Request{Host: "example.com", Port: 443}); conn != nil || !errors.As(err, &end) || end.Reason != reason || !fault.Is(err, fault.Network) {
			t.Errorf("a stream, reason %d: %v, %v", reason, conn, err)
		}
		if conn, err := c.Dial(ctx, Request{Host: "example.com", Port: 443, Early: []byte("GET")}); conn != nil || !errors.As(err, &end) {
			t.Errorf("a stream with first bytes, reason %d: %v, %v", reason, conn, err)
		}
		if got, err := c.Resolve(ctx, Request{Host: "example.com"}); len(got) != 0 || !errors.As(err, &end) || end.Reason != reason {
			t.Errorf("a lookup, reason %d: %v, %v", reason, got, err)
		}
	}
}

// TestFlowControlOnLookup: an exit that answers a lookup with messages of flow control, or with
// data, breaks the protocol, and the circuit ends. There is nothing to stop or to start.
func TestFlowControlOnLookup(t *testing.T) {
	for name, x := range map[string]struct {
		cmd  cell.RelayCommand
		body []byte
	}{
		"XOFF":      {cell.RelayXoff, []byte{0}},
		"XON":       {cell.RelayXon, []byte{0, 0, 0, 0, 1}},
		"SENDME":    {cell.RelaySendme, nil},
		"DATA":      {cell.RelayData, []byte("x")},
		"CONNECTED": {cell.RelayConnected, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, l := withLiars(t, Config{Network: netdir.Public()})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			live := *c.live.Load()
			live.StreamTimeout = time.Second
			c.live.Store(&live)
			l.say(x.cmd, x.body)
			start := l.asked.Load()
			got, err := c.Resolve(ctx, Request{Host: "example.com"})
			if len(got) != 0 || err == nil || ctx.Err() != nil || errors.Is(err, errStreamTimeout) {
				t.Errorf("%v, %v", got, err)
			}
			if n := l.asked.Load() - start; n != streamTries {
				t.Errorf("%d exits were asked, and each has broken the protocol", n)
			}
		})
	}
}

// TestNothingIsRemembered: a client keeps no answers of exits, of names or of addresses, so one
// that lies is believed for one lookup only.
func TestNothingIsRemembered(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	for host, answer := range map[string]cell.Answer{
		"example.com": {Type: cell.AnswerIPv4, Addr: netip.MustParseAddr("192.0.2.1"), TTL: 3600},
		"192.0.2.7":   {Type: cell.AnswerHostname, Text: []byte("host.example"), TTL: 3600},
	} {
		body, err := cell.Resolved{answer}.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		l.say(cell.RelayResolved, body)
		for n := int64(1); n <= 2; n++ {
			if got, err := c.Resolve(t.Context(), Request{Host: host}); err != nil || len(got) != 1 || l.asked.Load() != n {
				t.Errorf("lookup %d of %s: %v, %v, %d questions", n, host, got, err, l.asked.Load())
			}
		}
	}
}
