package client

import (
	"cmp"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/simnet"
)

// says answers each directory stream with a text, and then ends it or does not.
type says struct {
	text string
	open bool
	end  cell.EndReason // zero: EndDone
}

func (d says) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	if err := h.AcceptStream(m.Stream, gone{h, m.Stream}); err != nil {
		return err
	}
	if err := h.Send(cell.RelayConnected, m.Stream, nil); err != nil {
		return err
	}
	if d.text != "" {
		if err := h.Send(cell.RelayData, m.Stream, []byte(d.text)); err != nil {
			return err
		}
	}
	if d.open {
		return nil
	}
	return h.Send(cell.RelayEnd, m.Stream, (&cell.End{Reason: cmp.Or(d.end, cell.EndDone)}).Append(nil))
}

// TestGuardAnswers: the answer to a directory request, whatever it says, shows that its guard is up, and no other thing does. A
// guard that ends the stream before the answer is whole is down, for traffic, too, as with C tor's clients. With Config.Fast it is
// not.
func TestGuardAnswers(t *testing.T) {
	const ok, cut = "HTTP/1.0 200 OK\r\nDate: x\r\n\r\n", "HTTP/1.0 200 OK\r\ncontent-length: 9\r\n\r\n12345678"
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-1))
	defer cancel()
	ended, stop := context.WithCancel(t.Context())
	stop()
	for name, v := range map[string]struct {
		says
		purpose dirclient.Purpose
		asked   context.Context
		fast    bool
		want    string
	}{
		"nothing":                     {want: "no"},
		"no directory":                {says: says{end: cell.EndNotDirectory}, want: "no"},
		"overloaded for a moment":     {says: says{end: cell.EndResourceLimit}, want: "maybe"},
		"overloaded amid the head":    {says: says{text: "HTTP/1.0", end: cell.EndResourceLimit}, want: "no"},
		"nothing, fast":               {fast: true, want: "maybe"},
		"a part of the head":          {says: says{text: ok[:len(ok)-2]}, want: "no"},
		"no head":                     {says: says{text: "SSH-2.0\r\n\r\n"}, want: "no"},
		"no head, and no end":         {says: says{text: "HTTP/1.0 2000 OK\r\n", open: true}, want: "no"},
		"a consensus":                 {says: says{text: ok + "x"}, want: "yes"},
		"a consensus, fast":           {says: says{text: ok + "x"}, fast: true, want: "yes"},
		"not found":                   {says: says{text: "HTTP/1.0 404 Not found\r\n\r\n"}, want: "yes"},
		"busy":                        {says: says{text: "HTTP/1.1 503 Busy\n\n"}, want: "yes"},
		"a part of a consensus":       {says: says{text: cut}, want: "no"},
		"a part of microdescriptors":  {says: says{text: cut}, purpose: dirclient.Microdescriptors, want: "yes"},
		"a consensus of a length":     {says: says{text: cut + "9"}, want: "yes"},
		"a document not read further": {says: says{text: ok, open: true}, want: "yes"},
		"given up":                    {says: says{open: true}, asked: ended, want: "maybe"},
		"silent for a moment":         {says: says{open: true}, asked: late, want: "maybe"},
	} {
		t.Run(name, func(t *testing.T) {
			g := simnet.New(t, simnet.Options{Streams: v.says}).Target
			c, use := impatient(t, g, simnet.Dial)
			c.cfg.Fast = v.fast
			k := newCaches(c)
			defer k.close()
			d, err := k.get(t.Context(), g, use)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.guards.Status(time.Now()).Guards[0]; got.Reachable != "maybe" || !got.ConfirmedAt.IsZero() {
				t.Fatalf("after the circuit alone: %+v", got)
			}
			if v.asked == nil {
				v.asked = t.Context()
			}
			s, err := k.begin(v.asked, d, use, v.purpose)
			if err != nil {
				t.Fatal(err)
			}
			if v.open {
				if _, err := io.ReadFull(s, make([]byte, len(v.text))); err != nil {
					t.Fatal(err)
				}
			} else if _, err := io.ReadAll(s); (err != nil) != (v.end != 0) {
				t.Fatal(err)
			}
			for range 2 {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			if got := c.guards.Status(time.Now()).Guards[0]; got.Reachable != v.want || got.ConfirmedAt.IsZero() != (v.want != "yes") {
				t.Errorf("%+v, not %s", got, v.want)
			}
			if use.Decision() != guard.Discard {
				t.Error("the use goes on")
			}
		})
	}
}

// TestGuardOfOurEnd: a client that closes its circuit to a guard blames nobody.
func TestGuardOfOurEnd(t *testing.T) {
	g := simnet.New(t, simnet.Options{Streams: says{open: true}}).Target
	c, use := impatient(t, g, simnet.Dial)
	k := newCaches(c)
	defer k.close()
	d, err := k.get(t.Context(), g, use)
	if err != nil {
		t.Fatal(err)
	}
	s, err := k.begin(t.Context(), d, use, dirclient.Consensus)
	if err != nil {
		t.Fatal(err)
	}
	k.retire(d)
	if _, err := s.Read(make([]byte, 1)); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	s.Close()
	if got := c.guards.Status(time.Now()).Guards[0]; got.Reachable != "maybe" {
		t.Errorf("%+v", got)
	}
}

// TestGuardsFailRequests: a client all of whose guards end its directory requests goes on down its list, then from its
// beginning, and never without a guard for circuits.
func TestGuardsFailRequests(t *testing.T) {
	c, use := impatient(t, simnet.New(t, simnet.Options{}).Target, simnet.Dial)
	use.Cancelled(time.Now())
	for range 3 {
		now := time.Now()
		use, err := c.guards.Pick(guard.Request{Purpose: guard.Directory1Hop}, now)
		if err != nil {
			t.Fatal(err)
		}
		use.Failed(now, guard.Unanswered)
		if use, err = c.guards.Pick(guard.Request{}, now); err != nil {
			t.Fatal(err)
		}
		use.Cancelled(now)
	}
}
