package proxydial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/socks"
	"github.com/chivenet/chive/internal/stream"
)

// recorder is a client that notes what it is asked for.
type recorder struct{ asked []stream.Request }

var errAsked = errors.New("asked")

func (r *recorder) DialRequest(_ context.Context, req stream.Request) (net.Conn, error) {
	r.asked = append(r.asked, req)
	return nil, errAsked
}

func (r *recorder) LookupRequest(_ context.Context, req stream.Request) ([]stream.Answer, error) {
	r.asked = append(r.asked, req)
	return []stream.Answer{{Name: "a.example", TTL: 60}}, nil
}

func (r *recorder) StandsFor(host string) string {
	if host == "192.0.2.7" {
		return "host.example"
	}
	return host
}

// TestDialer: each request reaches the client as it is. A lookup asks for all families: the port
// chooses of the answers.
func TestDialer(t *testing.T) {
	r := &recorder{}
	d := Dialer{r}
	k := isolation.Key{By: isolation.ByProtocol, Listener: "socks0", Protocol: "socks5", Auth: isolation.NewAuth("u", "p")}
	barred := errors.New("barred")
	req := socks.Request{Host: "2001:db8::1", Port: 80, Key: k, Family: stream.IPv6First, Early: []byte("early"), Permit: func(string) error { return barred }}
	if _, err := d.Dial(t.Context(), req); err != errAsked {
		t.Error(err)
	}
	answers, err := d.Resolve(t.Context(), req)
	if err != nil || !slices.Equal(answers, []socks.Answer{{Name: "a.example", TTL: 60}}) {
		t.Error(answers, err)
	}
	if _, err := d.ResolvePTR(t.Context(), netip.MustParseAddr("192.0.2.1"), req); err != nil {
		t.Error(err)
	}
	if len(r.asked) != 3 {
		t.Fatalf("%d requests", len(r.asked))
	}
	for i, got := range r.asked {
		host, family := "2001:db8::1", stream.IPv6First
		if i > 0 {
			family = stream.AnyFamily
		}
		if i == 2 {
			host = "192.0.2.1"
		}
		if got.Host != host || got.Family != family || got.Key != k || string(got.Early) != "early" || got.Permit.Check("x.example") != barred {
			t.Errorf("request %d: %q, family %v", i, got.Host, got.Family)
		}
	}
	if r.asked[0].Port != 80 {
		t.Errorf("port %d", r.asked[0].Port)
	}
}

// failing is a client that fails with one error.
type failing struct {
	*recorder
	err error
}

func (f failing) DialRequest(context.Context, stream.Request) (net.Conn, error) { return nil, f.err }

// TestOnionReasons: each reason for which an onion service cannot be reached has its
// own code, also if the error is of a kind that has another one.
func TestOnionReasons(t *testing.T) {
	for _, want := range []struct {
		err    error
		reason socks.Reason
	}{
		{chive.ErrOnionNoDescriptor, socks.OnionNoDesc},
		{chive.ErrOnionDescriptor, socks.OnionBadDesc},
		{chive.ErrOnionIntroduction, socks.OnionIntro},
		{chive.ErrOnionRendezvous, socks.OnionRend},
		{chive.ErrOnionNeedsAuth, socks.OnionNoAuth},
		{chive.ErrOnionBadAuth, socks.OnionBadAuth},
		{chive.ErrOnionAddress, socks.OnionBadAddr},
		{chive.ErrOnionTimeout, socks.OnionIntroTime},
	} {
		_, err := Dialer{failing{err: fmt.Errorf("dial: %w: %w", chive.ErrTimeout, want.err)}}.Dial(t.Context(), socks.Request{Host: "x.onion", Port: 80})
		if got := socks.ReasonOf(err); got != want.reason || !errors.Is(err, want.err) {
			t.Errorf("%v: reason %d, not %d", want.err, got, want.reason)
		}
	}
	if _, err := (Dialer{failing{err: errAsked}}).Dial(t.Context(), socks.Request{}); err != errAsked {
		t.Errorf("another error became %v", err)
	}
}

// TestMapped: the addresses that rules of MapAddress are for.
func TestMapped(t *testing.T) {
	if d := (Dialer{new(recorder)}); !d.Mapped("192.0.2.7") || d.Mapped("192.0.2.8") {
		t.Error("not as the client says")
	}
}
