package relay

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStockTransport: a transport of another project runs without a configured address,
// and listens at the same port after a restart of the bridge: users have it in their
// bridge lines.
func TestStockTransport(t *testing.T) {
	path, err := exec.LookPath("obfs4proxy")
	switch {
	case testing.Short():
		t.Skip("short: nothing against other programs")
	case err != nil && os.Getenv("CHIVE_INTEROP") == "1":
		t.Fatal(err)
	case err != nil:
		t.Skip("SKIPPED, NOTHING WAS TESTED:", err)
	}
	for range 5 {
		if restarts(t, path) {
			return
		}
	}
	t.Error("whenever the bridge had ended, another program took the port")
}

// restarts starts a bridge twice. It returns false if another program had taken the port meanwhile.
func restarts(t *testing.T, path string) bool {
	cfg := bridgeConfig(t, "obfs4 exec "+path)
	var first string
	for range 2 {
		r, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		lines, err := r.BridgeLines(ctx)
		cancel()
		if e := <-done; e != nil {
			t.Error(e)
		}
		if first != "" && err != nil && strings.Contains(err.Error(), "address already in use") {
			t.Log(err)
			return false
		}
		if err != nil || len(lines) != 1 || lines[0].Args["cert"] == "" {
			t.Fatalf("%v %v", lines, err)
		}
		if line := lines[0].Addr.String() + lines[0].Args["cert"]; first == "" {
			first = line
		} else if line != first {
			t.Errorf("%s, and before the restart %s", line, first)
		}
	}
	return true
}

func TestChosenPorts(t *testing.T) {
	dir, log := t.TempDir(), new(bytes.Buffer)
	load := func() *chosenPorts { return loadPorts(dir, slog.New(slog.NewTextHandler(log, nil))) }
	a, b := netip.MustParseAddrPort("[::]:1"), netip.MustParseAddrPort("0.0.0.0:2")
	p := load()
	p.chose("x", b)
	p.chose("x", a)
	p.chose("y", b)
	set := map[string]netip.AddrPort{"y": a}
	if got := load().bind(set); !maps.Equal(got, map[string]netip.AddrPort{"x": a, "y": a}) || len(set) != 1 {
		t.Error(got)
	}
	if log.Len() > 0 {
		t.Error(log)
	}
	for _, text := range []string{"", "null", "{", `{"x":"here"}`, `{"x":1}`} {
		if err := os.WriteFile(filepath.Join(dir, portsFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		log.Reset()
		p := load()
		if got := p.bind(nil); len(got) != 0 || text != "null" && !strings.Contains(log.String(), "cannot be read") {
			t.Errorf("%q: %v %s", text, got, log)
		}
		p.chose("x", a)
		if got := load().bind(nil); got["x"] != a {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestLocalORPort: transports reach the ORPort from this machine.
func TestLocalORPort(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:0": "127.0.0.1", "0.0.0.0:0": "127.0.0.1", "[::]:0": "127.0.0.1", "0.0.0.0:0 [::1]:0": "127.0.0.1",
		"[::]:0 127.0.0.2:0": "::1", // the second one keeps the first from taking IPv4 too
	} {
		cfg := bridgeConfig(t)
		cfg.Listen = nil
		for _, a := range strings.Fields(listen) {
			cfg.Listen = append(cfg.Listen, netip.MustParseAddrPort(a))
		}
		cfg.Advertise = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:9001")}
		r, err := New(cfg)
		if err != nil && len(cfg.Listen) > 1 {
			t.Log(err) // no IPv6 here, or only one address on loopback
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got := r.localORPort()
		if got.Addr().String() != want {
			t.Errorf("%s: %s", listen, got)
		}
		c, err := net.Dial("tcp", got.String())
		if err != nil {
			t.Errorf("%s: %v", listen, err)
		} else {
			c.Close()
		}
		r.closeListeners()
	}
}
