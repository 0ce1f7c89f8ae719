package interop

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
)

// TestOnionClientsCommand: C tor's service takes the folder that "chive onion clients" makes, and C tor's client and Chive's
// the file for the client; who has none, or was removed, is not let in.
func TestOnionClientsCommand(t *testing.T) {
	ctx := bounded(t, 5*patience)
	nw := onionNetwork(t, ctx)
	tg, err := target.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	dir, alice, bob := filepath.Join(t.TempDir(), "service"), t.TempDir(), t.TempDir()
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(ctx, command(t), append([]string{"onion"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
	run("key", "make", dir)
	run("clients", "add", dir, "alice", "--output", alice)
	run("clients", "add", dir, "bob", "--output", bob)
	run("clients", "remove", dir, "bob")
	for _, d := range []string{alice, bob} {
		if err := exec.Command("chmod", "700", d).Run(); err != nil {
			t.Fatal(err)
		}
	}
	s := serveOnionDir(t, ctx, nw, tg.Addr(target.Web), dir)
	url := fmt.Sprintf("http://%s/bytes/1000", s.host)
	if sum, n := fetchHosted(t, newStock(t, nw, "ClientOnionAuthDir "+alice).SOCKS, url); n != 1000 || sum != target.Sum(1000) {
		t.Errorf("C tor: %d bytes", n)
	}
	if err := fetchOnion(ctx, onionClient(t, ctx, nw, func(c *chive.Config) { c.ClientOnionAuthDir = alice }), s.host, 1000); err != nil {
		t.Error(err)
	}
	d := socksclient.Dialer{Proxy: newStock(t, nw, "ClientOnionAuthDir "+bob).SOCKS.String()}
	if conn, err := d.DialContext(bounded(t, patience), "tcp", s.host+":80"); err == nil {
		conn.Close()
		t.Error("a client that was removed is let in")
	}
	if err := fetchOnion(ctx, onionClient(t, ctx, nw, func(c *chive.Config) { c.ClientOnionAuthDir = bob }), s.host, 1000); err == nil || !strings.Contains(err.Error(), "does not know this client's key") {
		t.Errorf("Chive with another key: %v", err)
	}
}
