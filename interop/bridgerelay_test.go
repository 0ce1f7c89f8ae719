package interop

import (
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/relay"
)

// startBridge runs a Chive bridge beside a network of C tor, and returns its
// bridge lines: a plain one and one for each transport.
func startBridge(t *testing.T, nw *ctor.Network, plugins ...string) (*relay.Relay, map[string]pt.BridgeLine) {
	t.Helper()
	cfg := relay.Config{Nickname: "chivebridge", Bridge: true, AssumeReachable: true, TransportListen: map[string]netip.AddrPort{}}
	for _, s := range plugins {
		l, err := pt.ParseTransportLine(s)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Transports = append(cfg.Transports, l)
		for _, n := range l.Transports {
			cfg.TransportListen[n] = netip.MustParseAddrPort("127.0.0.1:0")
		}
	}
	return runBridge(t, nw, cfg)
}

// runBridge runs a Chive bridge of a configuration, and returns its lines.
func runBridge(t *testing.T, nw *ctor.Network, cfg relay.Config) (*relay.Relay, map[string]pt.BridgeLine) {
	t.Helper()
	r := startRelay(t, nw, cfg)
	lines := map[string]pt.BridgeLine{"plain": {Addr: r.Addrs()[0], Fingerprint: r.Target().RSA}}
	list, err := r.BridgeLines(bounded(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		lines[l.Transport] = l
	}
	await(t, "the bridge describes itself", patience, func() bool { return r.Descriptor() != nil })
	return r, lines
}

// TestChiveBridge makes C tor's and Chive's clients use a Chive bridge: directly,
// through obfs4proxy, and through the transport in the chive binary.
func TestChiveBridge(t *testing.T) {
	nw := network(t, "vanilla")
	obfs4 := obfs4proxy(t)
	bin, err := buildChive()
	if err != nil {
		t.Fatal(err)
	}
	r, lines := startBridge(t, nw, "obfs4 exec "+obfs4, "chive exec "+bin)
	plugins := map[string]string{"obfs4": "obfs4 exec " + obfs4, "chive": "chive exec " + bin}
	for _, name := range []string{"plain", "obfs4", "chive"} {
		line, plugin := lines[name], plugins[name]
		t.Run("tor "+name, func(t *testing.T) {
			extra := []string{"UseBridges 1", "Bridge " + line.String()}
			if plugin != "" {
				extra = append(extra, "ClientTransportPlugin "+plugin)
			}
			n := stockClient(t, nw, extra...)
			began := time.Now()
			if err := download(bounded(t, patience), socksclient.Dialer{Proxy: n.SOCKS.String()}, shared.target.Addr(target.Source), 10<<20); err != nil {
				t.Fatal(err)
			}
			t.Logf("%.1f MB/s", 10<<20/1e6/time.Since(began).Seconds())
		})
		t.Run("chive "+name, func(t *testing.T) {
			var d dialled
			var with []string
			if plugin != "" {
				with = []string{plugin}
			}
			c := bridgeClient(t, nw, &d, []string{line.String()}, with...)
			fetch(t, c)
			if a := d.only(t); (a == line.Addr) != (plugin == "") {
				t.Errorf("connected to %v", a)
			}
		})
	}
	// Only its clients know of it.
	if dir := r.Directory(); dir != nil {
		if _, listed := dir.Lookup(r.Target().RSA); listed {
			t.Error("the bridge is in the consensus")
		}
	}
}
