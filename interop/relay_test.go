package interop

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/relay"
)

// startRelay runs a Chive relay in a network of C tor.
func startRelay(t *testing.T, nw *ctor.Network, cfg relay.Config) *relay.Relay {
	t.Helper()
	desc := nw.Description()
	desc.Testing.VotingInterval = 10 * time.Second
	return runRelay(t, &desc, cfg)
}

// runRelay runs a Chive relay in a network for as long as the test runs.
func runRelay(t *testing.T, desc *netdir.Network, cfg relay.Config) *relay.Relay {
	t.Helper()
	cfg.Network = desc
	cfg.DataDir = t.TempDir()
	for range cfg.FamilyIDs {
		torFamilyKey(t, cfg.DataDir)
	}
	cfg.Listen = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}
	cfg.ShutdownWait = -1
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil)).With("relay", cfg.Nickname)
	r, err := relay.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// await polls until f is true.
func await(t *testing.T, what string, timeout time.Duration, f func() bool) {
	t.Helper()
	end := time.NewTimer(timeout)
	defer end.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-end.C:
			t.Fatalf("%s: not within %v", what, timeout)
		case <-tick.C:
		}
	}
}

// A Chive relay and a Chive exit in a network of stock C tor: its authorities
// accept and list them, and a C tor client pins circuits through them at every
// position.
func TestRelayInCTorNetwork(t *testing.T) {
	t.Parallel()
	web, err := target.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	nw := ctortest.Network(t, ctor.Options{Authorities: 3, Relays: 2, Exits: 2, Clients: 1, VotingInterval: 10 * time.Second, LogLevel: "info",
		Nameserver: web.Nameserver()})
	logs := map[string]int64{}
	for _, n := range nw.Nodes {
		if logs[n.Name], err = n.LogSize(); err != nil {
			t.Fatal(err)
		}
	}
	other := nw.Routers()[0].ID.RSA
	mid := startRelay(t, nw, relay.Config{Nickname: "chivemiddle", Contact: "chive test", Family: []string{other.String()}, FamilyIDs: []string{"*"}})
	policy, err := exit.ParsePolicy([]string{"accept *:*"})
	if err != nil {
		t.Fatal(err)
	}
	out := startRelay(t, nw, relay.Config{Nickname: "chiveexit", AssumeReachable: true,
		Exit: &exit.Config{Policy: policy, Private: true, IPv6: true, Nameservers: []netip.AddrPort{web.Nameserver()}}})
	measured(t, nw, mid, out)
	for _, r := range []*relay.Relay{mid, out} {
		flags := []string{"Running", "Valid", "Fast", "Guard"}
		if r == out {
			flags = append(flags, "Exit")
		}
		// Two authorities may list it before the third has its descriptor.
		await(t, fmt.Sprintf("%s is accepted by all and listed as %v", r.Status().Nickname, flags), patience, func() bool {
			s := r.Status()
			has := func(f string) bool { return slices.Contains(strings.Fields(s.Flags), f) }
			return s.Accepted == 3 && s.Reachable && !slices.ContainsFunc(flags, func(f string) bool { return !has(f) })
		})
		t.Logf("%+v", r.Status())
	}
	// Stock clients fetch a new consensus late, so make this one fetch it now.
	client := nw.ByRole(ctor.Client)[0]
	if err := client.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"cached-microdesc-consensus", "cached-microdescs", "cached-microdescs.new"} {
		if err := os.Remove(filepath.Join(client.Dir, f)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	bootstrapAgain(t, client)
	ctx := bounded(t, 2*patience)
	ctl, err := client.Control(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer ctl.Close()
	midID, outID := mid.Target().RelayID, out.Target().RelayID
	await(t, "the client knows both", patience, func() bool {
		for _, id := range []ident.RelayID{midID, outID} {
			if _, err := ctl.GetInfo(ctx, "md/id/"+id.RSA.String()); err != nil {
				return false
			}
		}
		return true
	})
	// Stock authorities have read both forms of families.
	micro, err := ctl.GetInfo(ctx, "md/id/"+midID.RSA.String())
	if err != nil {
		t.Fatal(err)
	}
	lists := strings.Contains(micro, "RSA PUBLIC KEY") // consensus method 37 leaves out TAP keys and lists of families
	if mine := mid.Descriptor().FamilyIDs; len(mine) != 1 || !strings.Contains(micro, "\nfamily-ids ed25519:"+mine[0].String()+"\n") ||
		strings.Contains(micro, "$"+other.String()) != lists || strings.Contains(micro, "$"+midID.RSA.String()) != lists {
		t.Errorf("family %v in microdescriptor %q", mine, micro)
	}
	validate(t, map[string][]byte{"server-descriptor 1.0": mid.Descriptor().Text})
	tor := func(name string) *ctor.Node { return nw.Node(name) }
	node := func(id ident.RelayID) *ctor.Node { return &ctor.Node{ID: id} }
	for name, c := range map[string]struct {
		path []*ctor.Node
		size int64
	}{
		"guard":           {[]*ctor.Node{node(midID), tor("relay0"), tor("exit0")}, windows},
		"middle":          {[]*ctor.Node{tor("relay0"), node(midID), tor("exit0")}, windows},
		"exit":            {[]*ctor.Node{tor("relay0"), tor("relay1"), node(outID)}, windows},
		"middle and exit": {[]*ctor.Node{tor("relay1"), node(midID), node(outID)}, bulk},
	} {
		t.Run(name, func(t *testing.T) {
			cgo, cc := negotiated(out)
			if err := pinned(t, ctl, client, c.path, web, c.size); err != nil {
				logTail(t, client.LogPath)
				t.Fatal(err)
			}
			if a, b := negotiated(out); strings.HasSuffix(name, "exit") && (a == cgo || b == cc) {
				t.Errorf("the exit counts %d circuits with CGO and %d with congestion control, as before", a, b)
			}
		})
	}
	if path, err := findArti(); err == nil {
		t.Run("arti", func(t *testing.T) { artiUses(t, path, nw, mid, out) })
	} else {
		t.Logf("NOT TESTED: arti: %v", err)
	}
	for _, n := range nw.Nodes {
		w, err := n.Warnings(logs[n.Name])
		if err != nil {
			t.Error(err)
		}
		for _, l := range w {
			t.Errorf("%s: %s", n.Name, l)
		}
	}
}

// negotiated returns how many of a relay's circuits have CGO and congestion
// control: at an exit, those whose last hop it is.
func negotiated(r *relay.Relay) (cgo, congestion uint64) {
	s := &r.Stats().Circuit
	return s.CGO.Load(), s.Congestion.Load()
}

// pinned makes the C tor client fetch size bytes over a circuit of the given
// path.
func pinned(t *testing.T, ctl *ctor.Control, client *ctor.Node, path []*ctor.Node, web *target.Target, size int64) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	id, err := ctl.Extend(ctx, path...)
	if err != nil {
		return err
	}
	await(t, "the circuit is built", patience, func() bool {
		circs, err := ctl.Circuits(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range circs {
			if c.ID == id {
				return c.Status == "BUILT"
			}
		}
		t.Fatalf("the circuit failed; there are %+v", circs)
		return false
	})
	if _, err := ctl.Command(ctx, "SETCONF __LeaveStreamsUnattached=1"); err != nil {
		return err
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() { // attach what is new
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			streams, err := ctl.Streams(ctx)
			if err != nil {
				return
			}
			for _, s := range streams {
				if s.Status == "NEW" || s.Status == "DETACHED" {
					_, _ = ctl.Command(ctx, "ATTACHSTREAM "+s.ID+" "+id)
				}
			}
		}
	})
	defer func() { close(stop); wg.Wait(); ctl.CloseCircuit(context.Background(), id) }()
	hc := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "socks5h", Host: client.SOCKS.String()}), DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+web.NameAddr(target.Web, "target.test")+"/bytes/"+strconv.FormatInt(size, 10), nil)
	if err != nil {
		return err
	}
	start := time.Now()
	res, err := hc.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	h := sha256.New()
	n, err := io.Copy(h, res.Body)
	if err != nil {
		return err
	}
	if n != size || [32]byte(h.Sum(nil)) != target.Sum(size) {
		return errors.New("the bytes differ")
	}
	t.Logf("%d bytes in %v: %.1f MB/s", n, time.Since(start).Round(time.Millisecond), float64(n)/1e6/time.Since(start).Seconds())
	return nil
}

// measured does a bandwidth scanner's work for relays that came later.
func measured(t *testing.T, nw *ctor.Network, relays ...*relay.Relay) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(nw.Dir, "bandwidths"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, r := range relays {
		if _, err := fmt.Fprintf(f, "node_id=$%s bw=10000 nick=%s\n", r.Target().RSA, r.Status().Nickname); err != nil {
			t.Fatal(err)
		}
	}
}

// torFamilyKey makes a family key with C tor for the relay of a data directory.
func torFamilyKey(t *testing.T, dataDir string) {
	t.Helper()
	tor, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	keys := filepath.Join(dataDir, "keys")
	if err := os.Mkdir(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dataDir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(bounded(t, patience), tor, "--defaults-torrc", empty, "-f", empty, "--keygen-family", filepath.Join(keys, "test")).CombinedOutput(); err != nil {
		t.Fatalf("tor --keygen-family: %v: %s", err, out)
	}
}

// validate checks documents with stem, by kind.
func validate(t *testing.T, docs map[string][]byte) {
	t.Helper()
	args := []string{"-c", stemScript}
	for kind, text := range docs {
		file := filepath.Join(t.TempDir(), "doc")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, kind+"="+file)
	}
	if out, err := exec.CommandContext(bounded(t, patience), stemPython(t), args...).CombinedOutput(); err != nil {
		t.Errorf("stem: %v: %s", err, out)
	}
}

// TestOfflineKeysOfTor runs C tor with the keys that Chive has made for a relay
// whose master key is kept elsewhere.
func TestOfflineKeysOfTor(t *testing.T) {
	t.Parallel()
	tor, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	vault, dir := t.TempDir(), t.TempDir()
	made, err := relay.CertifyKeys(vault, 90*24*time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, n := range made.Copy {
		if err := os.Rename(filepath.Join(vault, n), filepath.Join(dir, "keys", n)); err != nil {
			t.Fatal(err)
		}
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		args = append([]string{"--defaults-torrc", empty, "-f", empty, "--DataDirectory", dir, "--ORPort", "9", "--OfflineMasterKey", "1", "--hush"}, args...)
		out, err := exec.CommandContext(bounded(t, patience), tor, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("tor %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	if out := run("--list-fingerprint", "ed25519"); !strings.Contains(out, made.ID.Ed.String()) {
		t.Errorf("not %s: %s", made.ID.Ed, out)
	}
	if out := run("--list-fingerprint"); !strings.Contains(strings.ReplaceAll(out, " ", ""), made.ID.RSA.String()) {
		t.Errorf("not %s: %s", made.ID.RSA, out)
	}
	// In seconds: the other form depends on the machine's time zone.
	if out, end := run("--key-expiration", "sign", "--format", "timestamp"), fmt.Sprintf("signing-cert-expiry: %d\n", made.Expires.Unix()); !strings.Contains(out, end) {
		t.Errorf("not %s: %s", end, out)
	}
}
