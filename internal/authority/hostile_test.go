package authority

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// TestVoteThatLies: one authority of three sends a false but properly signed
// vote. The consensus is what the two others say.
func TestVoteThatLies(t *testing.T) {
	identities, signings := keyPool(t, 2048, 3), keyPool(t, 2048, 3)
	relayKeys, onion := keyPool(t, 1024, 4), keyPool(t, 1024, 1)[0]
	synctest.Test(t, func(t *testing.T) {
		all, _ := inMemory(t, 3, identities, signings, func(_ int, c *Config) { c.WaitForRelays = len(relayKeys) })
		honest, liar := all[:2], all[2]
		stop := run(t, honest)
		defer stop()
		var relays []*netdoc.RouterDesc
		for i, k := range relayKeys {
			d := newTestRelay(t, i, k, onion).sign(t)
			relays = append(relays, d)
			for _, a := range all {
				if status, words := a.upload(netip.Addr{}, d.Text); status != 200 {
					t.Fatal(words)
				}
			}
		}
		planned := func() timing {
			honest[0].mu.Lock()
			defer honest[0].mu.Unlock()
			if honest[0].round == nil {
				return timing{}
			}
			return honest[0].round.timing
		}
		when := planned()
		for ; when.vote.IsZero() || time.Now().Before(when.vote); when = planned() {
			time.Sleep(time.Millisecond)
		}
		truth, err := liar.makeVote(when)
		if err != nil {
			t.Fatal(err)
		}
		v := *truth
		v.Params = netdoc.Params{{Name: "cc_alg", Value: 0}, {Name: "circwindow", Value: 100}}
		v.FreshUntil, v.ValidUntil = v.ValidAfter.Add(time.Hour), v.ValidAfter.Add(100*time.Hour)
		v.Routers = slices.Clone(v.Routers)
		// In the false vote, one relay has every flag and all bandwidth, at
		// another address; another relay is missing; a third has a different key;
		// and one relay is in no other vote.
		favourite := &v.Routers[0]
		favourite.Flags |= netdoc.FlagGuard | netdoc.FlagExit | netdoc.FlagAuthority
		favourite.Bandwidth, favourite.HasBandwidth = 1<<31, true
		favourite.Measured, favourite.HasMeasured = 1<<31, true
		favourite.Addr = netip.MustParseAddr("192.0.2.66")
		v.Routers[1].Ed = ident.Ed25519ID{1, 2, 3}
		v.Routers[1].Descriptor = [20]byte{9}
		gone := v.Routers[2].RSA
		sybil := v.Routers[3]
		sybil.RSA = ident.RSAID(bytes.Repeat([]byte{0xff}, len(sybil.RSA))) // votes are sorted, and this identity sorts last
		sybil.Ed, sybil.Nickname = ident.Ed25519ID{7}, "sybil"
		v.Routers = append(slices.Delete(v.Routers, 2, 3), sybil)
		lie, err := v.Sign(rand.Reader, liar.cfg.Keys.Signing)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range honest {
			if r := a.postVotes(lie.Text); r.Status != 200 {
				t.Fatal("the vote is as good as any:", r.Status)
			}
		}
		for honest[0].Consensus(netdoc.FlavorNS) == nil || honest[1].Consensus(netdoc.FlavorNS) == nil {
			if time.Since(when.start) > time.Minute {
				t.Fatal("no consensus")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if !bytes.Equal(honest[0].Consensus(netdoc.FlavorNS), honest[1].Consensus(netdoc.FlavorNS)) {
			t.Error("two consensuses")
		}
		c, err := netdoc.ParseConsensus(honest[0].Consensus(netdoc.FlavorNS), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Sources) != 3 || len(c.Routers) != len(relays) {
			t.Errorf("%d votes, %d relays", len(c.Sources), len(c.Routers))
		}
		if d := c.FreshUntil.Sub(c.ValidAfter); d != 10*time.Second {
			t.Errorf("fresh for %v", d)
		}
		for _, p := range c.Params {
			t.Errorf("parameter %s=%d of one authority", p.Name, p.Value)
		}
		seen := 0
		for _, r := range c.Routers {
			i := slices.IndexFunc(relays, func(d *netdoc.RouterDesc) bool { return d.RSA == r.RSA })
			if i < 0 {
				t.Errorf("%s is in the consensus", r.Nickname)
				continue
			}
			if r.Addr != relays[i].Addr || r.Descriptor != relays[i].Digest || r.Bandwidth >= 1<<20 || r.Flags.Has(netdoc.FlagAuthority) {
				t.Errorf("%s: %+v", r.Nickname, r)
			}
			if r.RSA == gone || r.RSA == favourite.RSA {
				seen++
			}
		}
		if seen != 2 {
			t.Error("a relay is missing")
		}
	})
}

// TestHostileVotes: an invalid vote is refused; the answer and the log give the
// reason, and the authority keeps nothing of it.
func TestHostileVotes(t *testing.T) {
	identities, signings := keyPool(t, 2048, 2), keyPool(t, 2048, 2)
	stranger := keyPool(t, 2048, 2)
	synctest.Test(t, func(t *testing.T) {
		var log lines
		all, w := inMemory(t, 2, identities, signings, func(i int, c *Config) {
			if i == 0 {
				c.Log = slog.New(slog.NewTextHandler(&log, nil))
			}
		})
		a, other := all[0], all[1]
		r := a.startRound()
		time.Sleep(time.Until(r.vote))
		good, err := other.makeVote(r)
		if err != nil {
			t.Fatal(err)
		}
		sign := func(change func(v *netdoc.Vote)) []byte {
			v := *good
			change(&v)
			out, err := v.Sign(rand.Reader, signings[1])
			if err != nil {
				t.Fatal(err)
			}
			return out.Text
		}
		now := time.Now().Truncate(time.Second)
		crt, err := netdoc.MakeAuthCert(rand.Reader, stranger[0], stranger[1], netip.MustParseAddrPort("10.9.9.9:80"), now, now.AddDate(1, 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		unknown := *good
		unknown.Cert, unknown.Source.Identity = crt, crt.Identity
		foreign, err := unknown.Sign(rand.Reader, stranger[1])
		if err != nil {
			t.Fatal(err)
		}
		old, err := netdoc.MakeAuthCert(rand.Reader, identities[1], signings[1], netip.MustParseAddrPort("10.0.0.2:80"), now.AddDate(-1, 0, 0), now.AddDate(0, 0, -1))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			what, want string
			body       []byte
		}{
			{"nothing", "Unable to parse", nil},
			{"no vote", "vote", []byte("network-status-version 3\nvote-status consensus\n")},
			{"half a vote", "vote", good.Text[:len(good.Text)/2]},
			{"changed", "signature", bytes.Replace(good.Text, []byte("contact "), []byte("contact x"), 1)},
			{"a stranger's", "recognized", foreign.Text},
			{"of another round", "valid-after", sign(func(v *netdoc.Vote) {
				v.ValidAfter, v.FreshUntil, v.ValidUntil = v.ValidAfter.Add(time.Hour), v.FreshUntil.Add(time.Hour), v.ValidUntil.Add(time.Hour)
			})},
			{"with an old certificate", "cert", sign(func(v *netdoc.Vote) { v.Cert = old })},
		} {
			log.clear()
			res := a.postVotes(c.body)
			if res.Status != 400 || !strings.Contains(res.Reason, c.want) {
				t.Errorf("%s: %d %q", c.what, res.Status, res.Reason)
			}
			if len(c.body) > 0 && !strings.Contains(log.String(), "level=WARN msg=\"posted vote refused\"") {
				t.Errorf("%s: logged %q", c.what, log.String())
			}
		}
		if n := len(a.round.votes); n != 0 {
			t.Errorf("%d votes were kept", n)
		}
		if res := a.postVotes(good.Text); res.Status != 200 || len(a.round.votes) != 1 {
			t.Errorf("and then the good one: %d %s", res.Status, res.Reason)
		}
		// A body that is too large is not read at all.
		for path, n := range map[string]int{"/tor/post/vote": maxUpload + 1, "/tor/": maxDescriptorUpload + 1, "/tor/post/consensus-signature": maxSignatures + 1} {
			conn, err := w.dial(context.Background(), a.cfg.DirPort)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n", path, n)
			answer, _ := io.ReadAll(conn) // the error does not matter
			if !strings.HasPrefix(string(answer), "HTTP/1.0 400 ") {
				t.Errorf("%s: %d bytes are answered by %.60q", path, n, answer)
			}
			conn.Close()
		}
	})
}

// TestAuthorityOnFullDisk: an authority that cannot write its state logs this and
// continues. When it can write again, it writes the state and removes the
// temporary files of a killed process.
func TestAuthorityOnFullDisk(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	relayKeys, onion := keyPool(t, 1024, 1), keyPool(t, 1024, 1)[0]
	base := t.TempDir()
	dir, aside := filepath.Join(base, "state"), filepath.Join(base, "aside")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var log lines
		with := func(_ int, c *Config) { c.Dir, c.Log = dir, slog.New(slog.NewTextHandler(&log, nil)) }
		all, _ := inMemory(t, 1, identities, signings, with)
		stop := run(t, all)
		if status, words := all[0].upload(netip.Addr{}, newTestRelay(t, 0, relayKeys[0], onion).sign(t).Text); status != 200 {
			t.Fatal(words)
		}
		time.Sleep(15 * time.Second)
		// A missing directory has the same effect as a full disk, and works on
		// every machine.
		must(os.Rename(dir, aside))
		must(os.WriteFile(dir, nil, 0o600))
		before := all[0].Consensus(netdoc.FlavorMicrodesc)
		log.clear()
		time.Sleep(30 * time.Second)
		if bytes.Equal(before, all[0].Consensus(netdoc.FlavorMicrodesc)) {
			t.Error("it published nothing new")
		}
		if !strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("the log does not say so: %s", log.String())
		}
		must(os.Remove(dir))
		must(os.Rename(aside, dir))
		must(os.WriteFile(filepath.Join(dir, ".sr-state.1234.tmp"), []byte("half"), 0o600))
		log.clear()
		time.Sleep(15 * time.Second)
		if strings.Contains(log.String(), "level=ERROR") {
			t.Error(log.String())
		}
		stop()
		last := all[0].Consensus(netdoc.FlavorMicrodesc)
		again, _ := inMemory(t, 1, identities, signings, with)
		if !bytes.Equal(last, again[0].Consensus(netdoc.FlavorMicrodesc)) || again[0].Relays() != 1 {
			t.Errorf("another state: %d relays", again[0].Relays())
		}
		if parts, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(parts) > 0 {
			t.Errorf("parts of files stay: %v %v", parts, err)
		}
	})
}

// lines collects a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

// TestNoRelayIdentity: an authority that is no relay answers requests for its
// descriptor with "not found".
func TestNoRelayIdentity(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	synctest.Test(t, func(t *testing.T) {
		all, w := inMemory(t, 1, identities, signings, nil)
		if all[0].cfg.Keys.RSA != nil {
			t.Fatal("it has an identity as a relay")
		}
		conn, err := w.dial(context.Background(), all[0].cfg.DirPort)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET /tor/server/authority HTTP/1.0\r\n\r\n")
		if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 404 ") {
			t.Errorf("%.60q %v", answer, err)
		}
	})
}
