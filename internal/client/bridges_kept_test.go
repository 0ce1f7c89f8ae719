package client

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// bridgeDesc makes a bridge's descriptor.
func bridgeDesc(t *testing.T, published time.Time) *netdoc.RouterDesc {
	t.Helper()
	_, master, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k := netdoc.DescKeys{Ed: cert.IdentityOf(master)}
	if k.Signing, err = cert.GenerateExpanded(rand.Reader); err != nil {
		t.Fatal(err)
	}
	if k.Identity, err = rsa.GenerateKey(rand.Reader, 1024); err != nil {
		t.Fatal(err)
	}
	rand.Read(k.NtorSecret[:])
	d, err := (&netdoc.RouterDesc{
		Nickname: "bridge", Addr: netip.MustParseAddr("192.0.2.1"), ORPort: 443, Platform: "Chive", Proto: "Link=4-5", Published: published,
		BandwidthRate: 1, BandwidthBurst: 1, Policy: netdoc.ExitPolicy{{Ports: netdoc.AllPorts}},
	}).Sign(rand.Reader, netdoc.NewDescKeys(k, cert.SignerOf(master), published.AddDate(0, 1, 0)), published)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestBridgeDescriptorKept: a client that starts again knows its bridges' onion keys, and so begins with the cell that C tor's
// begins with. It uses no descriptor that is old, damaged, or another bridge's.
func TestBridgeDescriptorKept(t *testing.T) {
	now := time.Now().Truncate(time.Second).UTC()
	fresh, other, old := bridgeDesc(t, now), bridgeDesc(t, now), bridgeDesc(t, now.Add(-maxKeptAge))
	lines := bridgeLines(t, "192.0.2.1:443 "+fresh.RSA.String(), "192.0.2.2:443 "+other.RSA.String(), "192.0.2.3:443 "+old.RSA.String())
	dir := t.TempDir()
	start := func() *Client {
		t.Helper()
		c, err := New(Config{Network: netdir.Public(), Dir: dir, Dial: refuse, Live: Live{Bridges: lines}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	c := start()
	c.bridge.mu.Lock()
	c.bridge.all[0].desc, c.bridge.all[1].desc, c.bridge.all[2].desc = fresh, other, old
	c.bridge.mu.Unlock()
	c.bridge.save()
	c.Close()
	usable := func(c *Client) (out []bool) {
		for _, b := range c.Status().Bridges {
			out = append(out, b.Usable)
		}
		return out
	}
	if got := usable(start()); len(got) != 3 || !got[0] || !got[1] || got[2] {
		t.Errorf("usable after a restart: %v", got)
	}

	file := filepath.Join(dir, "bridge-descriptors")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := os.Stat(file); err != nil || s.Mode().Perm()&0o077 != 0 {
		t.Errorf("others can read it: %v, %v", s.Mode(), err)
	}
	bad := strings.Replace(string(text), "bandwidth 1 1", "bandwidth 1 2", 1)
	if bad == string(text) {
		t.Fatal("nothing was changed")
	}
	if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	c = start()
	if got := usable(c); got[0] || !got[1] {
		t.Errorf("usable of a file with a changed descriptor: %v", got)
	}

	// A bridge that answers with an error has other keys now. One that does not answer says nothing.
	b := c.bridge.all[1]
	c.bridge.disown(b, &channel.ConnectError{Err: fault.New(fault.Network, "refused")})
	c.bridge.disown(b, &channel.ConnectError{Err: fault.New(fault.Timeout, "silent")})
	c.bridge.disown(b, fault.New(fault.Closed, "the end"))
	if !usable(c)[1] {
		t.Error("it is forgotten because the bridge cannot be reached")
	}
	c.bridge.disown(b, fault.New(fault.Protocol, "another key"))
	if usable(c)[1] {
		t.Error("it is not forgotten though the bridge has another key")
	}
}
