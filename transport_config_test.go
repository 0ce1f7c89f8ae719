package chive

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/builtin"
)

// noTransport is a transport that reaches nothing.
type noTransport struct{ err error }

func (n *noTransport) Dial(context.Context, func(context.Context, string, string) (net.Conn, error), netip.AddrPort, map[string]string) (net.Conn, error) {
	return nil, n.err
}

// TestTransports: a bridge line needs a plugin, a transport of the program's, or one that Chive has.
func TestTransports(t *testing.T) {
	mine := map[string]Transport{"mine": &noTransport{}}
	for name, c := range map[string]struct {
		cfg  Config
		want string // empty: it is right
	}{
		"fte":            {Config{Bridges: []string{"fte 192.0.2.1:1 key=" + strings.Repeat("ab", 32), "chive 192.0.2.2:1"}}, ""},
		"mine":           {Config{Bridges: []string{"mine 192.0.2.1:1 k=v"}, Transports: mine}, ""},
		"none":           {Config{Bridges: []string{"mine 192.0.2.1:1"}}, "Bridges"},
		"a plugin":       {Config{Bridges: []string{"fte 192.0.2.1:1"}, ClientTransportPlugins: []string{"fte exec /bin/chive"}}, ""},
		"a proxy":        {Config{Bridges: []string{"fte 192.0.2.1:1"}, Proxy: "socks5://192.0.2.9:1"}, ""},
		"both":           {Config{ClientTransportPlugins: []string{"x,mine socks4 192.0.2.1:1"}, Transports: mine}, "Transports"},
		"in the way":     {Config{Bridges: []string{"fte 192.0.2.1:1"}, Transports: map[string]Transport{"fte": &noTransport{}}}, ""},
		"nil":            {Config{Transports: map[string]Transport{"mine": nil}}, "Transports"},
		"no name":        {Config{Transports: map[string]Transport{"a b": &noTransport{}}}, "Transports"},
		"not of a plain": {Config{Bridges: []string{"192.0.2.1:1 key=x"}}, "Bridges"},
	} {
		if err := c.cfg.Check(); (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	plugged := Config{ClientTransportPlugins: []string{"fte exec /bin/chive"}}
	var r choices
	if err := plugged.bridges(&r); err != nil || r.inside["fte"] != nil || r.inside["chive"] == nil {
		t.Error(r.inside, err)
	}
	ours := Config{Transports: map[string]Transport{"fte": &noTransport{}}}
	r = choices{}
	if err := ours.bridges(&r); err != nil {
		t.Error(err)
	} else if _, of := r.inside["fte"].(builtin.Transport); of {
		t.Error("the program's own transport is passed over")
	}
}

// TestTransportsStay: transports do not change while the client runs, and those of New need not be told apart.
func TestTransportsStay(t *testing.T) {
	first := &noTransport{errors.New("refused by the first")}
	c, err := New(Config{Network: silent(t), DataDir: t.TempDir(), Bridges: []string{"mine 192.0.2.1:1 " + strings.Repeat("AB", 20)}, Transports: map[string]Transport{"mine": first}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cfg := c.Config()
	cfg.Bridges = append(cfg.Bridges, "mine 192.0.2.2:1 "+strings.Repeat("CD", 20))
	if err := c.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	cfg.Transports["mine"] = &noTransport{}
	if err := c.Reload(cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "Transports") {
		t.Errorf("another transport: %v", err)
	}
	if got := c.Config(); got.Transports["mine"] != Transport(first) || len(got.Bridges) != 2 {
		t.Errorf("it has changed: %v", got)
	}
}
