package relay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/chivenet/chive"
)

// noTransport is a transport without a port.
type noTransport struct{}

func (*noTransport) Listen(context.Context, TransportConfig) (net.Listener, map[string]string, error) {
	return nil, nil, errors.New("no port")
}

// TestTransports: the transports inside a bridge are the program's, and those of Chive's own that an option names
// and no plugin offers.
func TestTransports(t *testing.T) {
	mine := map[string]Transport{"mine": &noTransport{}}
	for name, c := range map[string]struct {
		cfg    Config
		inside string // their names, or the field of a mistake
		wrong  bool
	}{
		"none":          {Config{}, "", false},
		"fte":           {Config{ServerTransportListen: []string{"fte 0.0.0.0:443"}}, "fte", false},
		"by an option":  {Config{ServerTransportOptions: []string{"chive mode=bulk"}}, "chive", false},
		"by a plugin":   {Config{ServerTransportListen: []string{"fte 0.0.0.0:443"}, ServerTransportPlugins: []string{"fte exec /bin/chive"}}, "", false},
		"mine":          {Config{Transports: mine}, "mine", false},
		"mine, with":    {Config{Transports: mine, ServerTransportListen: []string{"mine 0.0.0.0:443"}, ServerTransportOptions: []string{"mine a=b"}}, "mine", false},
		"both":          {Config{Transports: mine, ServerTransportPlugins: []string{"mine exec /bin/x"}}, "Transports", true},
		"nil":           {Config{Transports: map[string]Transport{"x": nil}}, "Transports", true},
		"no name":       {Config{Transports: map[string]Transport{"x y": &noTransport{}}}, "Transports", true},
		"nobody's":      {Config{ServerTransportListen: []string{"obfs4 0.0.0.0:443"}}, "ServerTransportListen", true},
		"nobody's, too": {Config{ServerTransportOptions: []string{"obfs4 a=b"}}, "ServerTransportOptions", true},
	} {
		c.cfg.Network, c.cfg.DataDir, c.cfg.Nickname, c.cfg.ORPort, c.cfg.Bridge = lab(t), t.TempDir(), "bridge", []string{"127.0.0.1:9001"}, true
		inner, err := c.cfg.inner(checking.addresses)
		if err == nil {
			err = inner.Check()
		}
		if (err != nil) != c.wrong || err != nil && (!errors.Is(err, chive.ErrConfig) || !strings.HasPrefix(err.Error(), c.inside)) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		var names []string
		for n := range inner.Inside {
			names = append(names, n)
		}
		if strings.Join(names, ",") != c.inside {
			t.Errorf("%s: %v", name, names)
		}
	}
	public := Config{DataDir: t.TempDir(), Nickname: "relay", ORPort: []string{"192.0.2.1:9001"}, Transports: mine}
	if err := public.Check(); !errors.Is(err, chive.ErrConfig) || !strings.Contains(err.Error(), "bridges") {
		t.Errorf("a relay that is listed: %v", err)
	}
	// A bridge whose ORPort is on loopback, behind them, has the address of the machine.
	for _, cfg := range []Config{{Transports: mine}, {ServerTransportListen: []string{"fte 0.0.0.0:443"}}, {ServerTransportOptions: []string{"fte key=x"}}} {
		listen := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9001")}
		if cfg.Bridge = true; saysWhere(&cfg, listen, false) {
			t.Errorf("%+v says where it is", cfg)
		}
	}
}
