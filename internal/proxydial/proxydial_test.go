package proxydial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/socks"
	"github.com/chivenet/chive/internal/stream"
)

// recorder is a Client that notes what it is asked for, and with which key.
type recorder struct {
	asked    []string
	keys     []isolation.Key
	families []stream.Family
	permits  []error // of stream.PermitOf for one host
}

var errAsked = errors.New("asked")

func (r *recorder) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	r.asked, r.keys = append(r.asked, network+" "+address), append(r.keys, isolation.FromContext(ctx))
	r.families = append(r.families, stream.FamilyOf(ctx))
	r.permits = append(r.permits, stream.PermitOf(ctx).Check("x.example"))
	return nil, errAsked
}

func (r *recorder) Lookup(ctx context.Context, host string) ([]chive.Answer, error) {
	r.asked, r.keys = append(r.asked, host), append(r.keys, isolation.FromContext(ctx))
	r.permits = append(r.permits, stream.PermitOf(ctx).Check("x.example"))
	return []chive.Answer{{Name: "a.example", TTL: time.Minute}}, nil
}

// TestDialer: each request reaches the client with its own key.
func TestDialer(t *testing.T) {
	r := &recorder{}
	d := Dialer{r}
	k := isolation.Key{By: isolation.ByProtocol, Listener: "socks0", Protocol: "socks5", Auth: isolation.NewAuth("u", "p")}
	req := socks.Request{Host: "2001:db8::1", Port: 80, Isolation: k, Family: stream.IPv6First}
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
	if want := []string{"tcp [2001:db8::1]:80", "2001:db8::1", "192.0.2.1"}; !slices.Equal(r.asked, want) {
		t.Errorf("asked %q, want %q", r.asked, want)
	}
	if !slices.Equal(r.keys, []isolation.Key{k, k, k}) {
		t.Error("a key was changed on its way")
	}
	if !slices.Equal(r.families, []stream.Family{stream.IPv6First}) {
		t.Errorf("families %v", r.families)
	}
}

// TestPermit: a client hears what the port's flags bar, because only it knows where
// MapAddress leads.
func TestPermit(t *testing.T) {
	r := &recorder{}
	barred := errors.New("barred")
	req := socks.Request{Host: "a.example", Port: 80, Permit: func(host string) error {
		if host == "x.example" {
			return barred
		}
		return nil
	}}
	_, _ = Dialer{r}.Dial(t.Context(), req)
	_, _ = Dialer{r}.Resolve(t.Context(), req)
	_, _ = Dialer{r}.Dial(t.Context(), socks.Request{Host: "a.example", Port: 80})
	if !slices.Equal(r.permits, []error{barred, barred, nil}) {
		t.Error(r.permits)
	}
}

// failing is a Client that fails with one error.
type failing struct{ err error }

func (f failing) DialContext(context.Context, string, string) (net.Conn, error) { return nil, f.err }
func (f failing) Lookup(context.Context, string) ([]chive.Answer, error)        { return nil, f.err }

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
		_, err := Dialer{failing{fmt.Errorf("dial: %w: %w", chive.ErrTimeout, want.err)}}.Dial(t.Context(), socks.Request{Host: "x.onion", Port: 80})
		if got := socks.ReasonOf(err); got != want.reason || !errors.Is(err, want.err) {
			t.Errorf("%v: reason %d, not %d", want.err, got, want.reason)
		}
	}
	if _, err := (Dialer{failing{errAsked}}).Dial(t.Context(), socks.Request{}); err != errAsked {
		t.Errorf("another error became %v", err)
	}
}

// configured is a client with rules.
type configured struct {
	*recorder
	rules []string
}

func (c configured) Config() chive.Config { return chive.Config{MapAddress: c.rules} }

// TestMapped: the addresses that rules of MapAddress are for.
func TestMapped(t *testing.T) {
	d := Dialer{configured{new(recorder), []string{"192.0.2.7 host.example", "2001:db8::7 192.0.2.8", "*.example other.example"}}}
	for addr, want := range map[string]bool{"192.0.2.7": true, "2001:db8::7": true, "192.0.2.8": false, "2001:db8::8": false} {
		if d.Mapped(addr) != want {
			t.Errorf("%s: %v", addr, !want)
		}
	}
	if (Dialer{new(recorder)}).Mapped("192.0.2.7") || (Dialer{configured{new(recorder), nil}}).Mapped("192.0.2.7") {
		t.Error("without rules")
	}
}
