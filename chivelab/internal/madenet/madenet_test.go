package madenet

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

func small(t *testing.T, o Options) *Net {
	t.Helper()
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	n, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDocuments: every signature holds, and each consensus is the one before with a few other relays.
func TestDocuments(t *testing.T) {
	const relays, hours = 40, 3
	n := small(t, Options{Relays: relays, Authorities: 3, Hours: hours})
	certs := map[netdoc.KeyPair]*netdoc.AuthCert{}
	netdoc.ParseAuthCerts(n.Certs(), func(c *netdoc.AuthCert, err error) {
		if err != nil {
			t.Fatal(err)
		}
		certs[c.KeyPair()] = c
	})
	descs := n.Descriptors()
	for _, d := range descs {
		if _, err := netdoc.ParseRouterDesc(d.Text, time.Now()); err != nil {
			t.Error(err)
		}
	}
	if len(descs) != relays {
		t.Errorf("%d descriptors", len(descs))
	}
	var last []string
	for ago := range hours + 1 {
		for _, f := range []netdoc.Flavor{netdoc.FlavorMicrodesc, netdoc.FlavorNS} {
			text, err := n.Consensus(f, ago)
			if err != nil {
				t.Fatal(err)
			}
			c, err := netdoc.ParseConsensus(text, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if v := c.Verify(n.Network().V3Idents(), func(kp netdoc.KeyPair) *netdoc.AuthCert { return certs[kp] }, c.ValidAfter); len(v.Valid) != 3 {
				t.Errorf("%+v", v)
			}
			var names []string
			for i := range c.Routers {
				names = append(names, c.Routers[i].Nickname)
			}
			if len(names) != relays || f == netdoc.FlavorNS && c.Routers[0].Policy == nil {
				t.Errorf("%d relays in %v", len(names), f)
			}
			if f == netdoc.FlavorNS {
				continue
			}
			if differ := len(slices.DeleteFunc(slices.Clone(names), func(s string) bool { return slices.Contains(last, s) })); ago > 0 && differ != 1 {
				t.Errorf("%d relays of %d hours ago are not there an hour later", differ, ago)
			}
			last = names
		}
	}
	text, err := n.Consensus(netdoc.FlavorMicrodesc, 0)
	if err != nil {
		t.Fatal(err)
	}
	micro, digests := n.Microdescs()
	var l netdir.Loader
	d, _, err := l.Consensus(text, nil)
	if err == nil {
		d, _, err = l.Microdescs(d, micro, nil)
	}
	if err != nil || d.Len() != relays || len(digests) != relays || d.Usability().Path != 1 {
		t.Fatal(err, d.Usability())
	}
}

// TestFirst: a part of a network is a network.
func TestFirst(t *testing.T) {
	n := small(t, Options{Relays: 40, Authorities: 1, Hours: 2})
	part, err := n.First(20)
	if err != nil {
		t.Fatal(err)
	}
	for ago := range 3 {
		text, err := part.Consensus(netdoc.FlavorMicrodesc, ago)
		if err != nil {
			t.Fatal(err)
		}
		c, err := netdoc.ParseConsensus(text, nil, nil)
		if err != nil || len(c.Routers) != 20 {
			t.Errorf("%d hours ago: %v", ago, err)
		}
	}
	for _, relays := range []int{19, 45} {
		if _, err := n.First(relays); !fault.Is(err, fault.Config) {
			t.Errorf("%d relays: %v", relays, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Relays: 19}, {Relays: maxRelays + 1}, {Relays: 20, Hours: 97}, {Relays: 20, Hours: -1}, {Relays: 20, Authorities: 21}} {
		if _, err := New(t.Context(), o); !fault.Is(err, fault.Config) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(ctx, Options{Relays: 20, Authorities: 1, Now: time.Now()}); err == nil {
		t.Error("it does not end when nobody waits for it")
	}
}

// await waits until a file is whole.
func await(ctx context.Context, t *testing.T, name string, whole func([]byte) bool) []byte {
	t.Helper()
	for {
		b, err := os.ReadFile(name)
		if err == nil && whole(b) {
			return b
		}
		pause(ctx, t)
	}
}

// TestTor: C tor takes the network's files without a warning, as a client and as a cache, and the cache makes a diff from each
// earlier consensus.
func TestTor(t *testing.T) {
	tor, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	n := small(t, Options{Relays: 60, Authorities: 3, Hours: 3})
	for role, lines := range map[string][]string{
		"client": {"SocksPort 0"},
		"cache":  {"SocksPort 0", "ORPort 127.0.0.1:auto IPv4Only", "Address 127.0.0.1", "Nickname cache", "AssumeReachable 1", "PublishServerDescriptor 0", "ExitRelay 0"},
	} {
		t.Run(role, func(t *testing.T) {
			dir := t.TempDir()
			if err := n.WriteTor(dir); err != nil {
				t.Fatal(err)
			}
			log := filepath.Join(dir, "log")
			lines = append(slices.Clone(lines), n.Torrc()...)
			lines = append(lines, "TestingTorNetwork 1", "DataDirectory "+dir, "ControlPort auto", "ControlPortWriteToFile "+filepath.Join(dir, "port"),
				"CookieAuthentication 1", "Log info file "+log, "Log notice stdout", "GeoIPFile /dev/null", "GeoIPv6File /dev/null", "ProtocolWarnings 1",
				"__DisablePredictedCircuits 1", "UseEntryGuards 0")
			rc := filepath.Join(dir, "torrc")
			if err := os.WriteFile(rc, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			p, _, err := child.Run(ctx, nil, exec.Command(tor, "--defaults-torrc", "/nonexistent", "-f", rc), func(l string) bool { return strings.Contains(l, "Opened Control listener") })
			if err != nil {
				t.Fatal(err)
			}
			defer p.Stop()
			cookie := filepath.Join(dir, "control_auth_cookie")
			port := await(ctx, t, filepath.Join(dir, "port"), func(b []byte) bool { return bytes.HasSuffix(b, []byte("\n")) })
			await(ctx, t, cookie, func(b []byte) bool { return len(b) == 32 })
			c, err := ctor.DialControl(ctx, strings.TrimSpace(strings.TrimPrefix(string(port), "PORT=")), cookie)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ask := func(key string) string {
				s, err := c.GetInfo(ctx, key)
				if err != nil {
					t.Fatalf("%s: %v", key, err)
				}
				return s
			}
			for ask("status/enough-dir-info") != "1" {
				pause(ctx, t)
			}
			if relays := strings.Count("\n"+ask("ns/all"), "\nr "); relays != 60 {
				t.Errorf("%d relays", relays)
			}
			for role == "cache" && count(t, log, "diff from") < 3 {
				pause(ctx, t)
			}
			b, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			for l := range strings.Lines(string(b)) {
				about := slices.ContainsFunc(aboutOptions, func(s string) bool { return strings.Contains(l, s) })
				if (strings.Contains(l, "[warn]") || strings.Contains(l, "[err]")) && !about {
					t.Error(l)
				}
			}
		})
	}
}

// aboutOptions are C tor's warnings that have nothing to do with documents.
var aboutOptions = []string{"Your ContactInfo config", "You have used DirAuthority", "TestingTorNetwork is set", "Fixing permissions", "Your log may contain", "You are running Tor as root"}

// pause waits a little for another process.
func pause(ctx context.Context, t *testing.T) {
	t.Helper()
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
		t.Fatal(context.Cause(ctx))
	}
}

func count(t *testing.T, file, word string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), word)
}

func TestPlaces(t *testing.T) {
	seen := map[string]bool{}
	for i := range maxRelays {
		a := address(i)
		if seen[fmt.Sprint(a)] || !a.Is4() || a.IsLoopback() || a.IsMulticast() || a.As4()[0] == 127 {
			t.Fatalf("%d: %v", i, a)
		}
		seen[fmt.Sprint(a)] = true
	}
}
