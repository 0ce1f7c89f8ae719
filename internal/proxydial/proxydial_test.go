package proxydial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/socks"
)

// recorder is a Client that notes what it is asked for, and with which key.
type recorder struct {
	asked []string
	keys  []isolation.Key
}

var errAsked = errors.New("asked")

func (r *recorder) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	r.asked, r.keys = append(r.asked, network+" "+address), append(r.keys, isolation.FromContext(ctx))
	return nil, errAsked
}

func (r *recorder) Lookup(ctx context.Context, host string) ([]chive.Answer, error) {
	r.asked, r.keys = append(r.asked, host), append(r.keys, isolation.FromContext(ctx))
	return []chive.Answer{{Name: "a.example", TTL: time.Minute}}, nil
}

// TestDialer: each request reaches the client with its own key.
func TestDialer(t *testing.T) {
	r := &recorder{}
	d := Dialer{r}
	k := isolation.Key{By: isolation.ByProtocol, Listener: "socks0", Protocol: "socks5", Auth: isolation.NewAuth("u", "p")}
	req := socks.Request{Host: "2001:db8::1", Port: 80, Isolation: k}
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
}
