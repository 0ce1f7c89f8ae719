package interop

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/relay"
)

// TestKeysBackToCTor starts C tor with the keys that Chive has made for each role: whoever moves here can go back.
func TestKeysBackToCTor(t *testing.T) {
	t.Parallel()
	nobody := unansweredNetwork()
	t.Run("relay", func(t *testing.T) {
		dir := t.TempDir()
		keys := relayKeysIn(t, dir, nobody)
		if keys[0]&7 != 0 || keys[31]&0xc0 != 64 {
			t.Errorf("the onion key is not clamped: % x", keys)
		}
		startsWith(t, dir, descriptorMade, nil, "ORPort 127.0.0.1:auto")
	})
	t.Run("relay of an older Chive", func(t *testing.T) {
		dir := t.TempDir()
		relayKeysIn(t, dir, nobody)
		file := filepath.Join(dir, "keys", "secret_onion_key_ntor")
		made := time.Now().Add(-72 * time.Hour).Truncate(time.Second)
		unclamp(t, file, made)
		relayKeysIn(t, dir, nobody)
		if st, err := os.Stat(file); err != nil || !st.ModTime().Equal(made) {
			t.Errorf("%v: the key's age is lost: %v", err, st.ModTime())
		}
		startsWith(t, dir, descriptorMade, nil, "ORPort 127.0.0.1:auto")
	})
	t.Run("authority", func(t *testing.T) {
		dir := t.TempDir()
		port := freePort(t)
		k, err := authority.MakeKeys(filepath.Join(dir, "keys"), fmt.Sprintf("127.0.0.1:%d", port), 12, nil)
		if err != nil {
			t.Fatal(err)
		}
		self := fmt.Sprintf("DirAuthority self orport=%d no-v2 v3ident=%s 127.0.0.1:%d %s", port+1, k.V3Ident, port, k.RSA)
		startsWith(t, dir, descriptorMade, []string{self}, fmt.Sprintf("ORPort 127.0.0.1:%d", port+1), fmt.Sprintf("DirPort 127.0.0.1:%d", port),
			"AuthoritativeDirectory 1", "V3AuthoritativeDirectory 1")
	})
	t.Run("onion service", func(t *testing.T) {
		dir := t.TempDir()
		service := filepath.Join(dir, "service")
		key, err := hsservice.OpenKey(service)
		if err != nil {
			t.Fatal(err)
		}
		startsWith(t, dir, "Bootstrapped 0%", nil, "HiddenServiceDir "+service, "HiddenServicePort 80 127.0.0.1:9")
		name, err := os.ReadFile(filepath.Join(service, "hostname"))
		if err != nil || strings.TrimSpace(string(name)) != key.Address() {
			t.Errorf("%v: %s is not %s", err, name, key.Address())
		}
	})
}

// descriptorMade is what C tor logs when it has signed its descriptor with all keys of a relay.
const descriptorMade = "Uploading relay descriptor to directory authorities"

// unansweredNetwork is a network with an authority at a port where nobody listens.
func unansweredNetwork() *netdir.Network {
	at := netip.MustParseAddrPort("127.0.0.1:9")
	return &netdir.Network{Name: "nobody", Testing: netdir.Testing{AllowPrivateAddresses: true}, Authorities: []netdir.Authority{{Nickname: "nobody", V3Ident: ident.RSAID{1}, RSA: ident.RSAID{2}, ORPorts: []netip.AddrPort{at}}}}
}

// relayKeysIn has a Chive relay make the keys of a data directory, or read them, and returns its onion key's secret.
func relayKeysIn(t *testing.T, dir string, nw *netdir.Network) []byte {
	t.Helper()
	listen := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}
	r, err := relay.New(relay.Config{Network: nw, DataDir: dir, Nickname: "back", Listen: listen, ShutdownWait: -1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ended); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "keys", "secret_onion_key_ntor"))
	if err != nil || len(b) != 96 {
		t.Fatalf("%d bytes: %v", len(b), err)
	}
	return b[32:64]
}

// unclamp writes an onion key as Chive did before it clamped those that it stores: the same key by other bytes.
func unclamp(t *testing.T, file string, made time.Time) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[32] |= 7
	b[63] |= 128
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, made, made); err != nil {
		t.Fatal(err)
	}
}

// startsWith runs C tor in a data directory until its log says that it has done something with the keys.
func startsWith(t *testing.T, dir, done string, authorities []string, lines ...string) {
	t.Helper()
	tor, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	if authorities == nil {
		authorities = []string{fmt.Sprintf("DirAuthority nobody orport=9 no-v2 v3ident=%040d 127.0.0.1:9 %040d", 1, 2)}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	lines = append(lines, authorities...)
	lines = append(lines, "TestingTorNetwork 1", "DataDirectory "+dir, "SocksPort auto", "Nickname back", "Address 127.0.0.1", "AssumeReachable 1", "ContactInfo lab",
		"ServerDNSDetectHijacking 0", "ServerDNSAllowBrokenConfig 1", "GeoIPFile /dev/null", "GeoIPv6File /dev/null", "Log info file "+log, "SafeLogging 0")
	rc := filepath.Join(dir, "torrc")
	if err := os.WriteFile(rc, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tor, "--defaults-torrc", "/nonexistent", "-f", rc, "--hush")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	text := func() string {
		b, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(b)
	}
	defer func() {
		_ = cmd.Process.Kill() // it may be gone already
		<-ended
		if t.Failed() {
			all := text()
			t.Log(all[max(0, len(all)-4000):])
		}
	}()
	await(t, "C tor with Chive's keys", patience, func() bool {
		select {
		case err := <-ended:
			ended <- nil
			t.Fatalf("C tor ended: %v", err)
		default:
		}
		return strings.Contains(text(), done)
	})
}
