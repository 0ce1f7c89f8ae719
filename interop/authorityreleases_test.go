package interop

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/relay"
)

// releases is a network with relays of three kinds: the usual tor's, the newest tor's and
// Chive's, a middle relay and an exit of each.
type releases struct {
	*authorityNet
	tor   []string // the names of C tor's nodes
	names []string // of all relays, authorities not included
	chive []*relay.Relay
	cfgs  []relay.Config
}

func newReleases(t *testing.T, n int, authorities, torrc []string, change ...func(*authority.Config)) *releases {
	t.Helper()
	const relays = 6
	an := newNamedAuthorityNet(t, n, authorities, torrc, relays+len(authorities), "", change...)
	r := &releases{authorityNet: an, names: []string{"relay0", "exit0", "newrelay0", "newexit0"}}
	r.tor = slices.Concat(r.names, authorities)
	an.startRelays(1, 1)
	an.startNamedRelays("new", 1, 1)
	policy, err := exit.ParsePolicy([]string{"accept *:*"})
	if err != nil {
		t.Fatal(err)
	}
	network := *an.net
	network.Testing.VotingInterval = authInterval
	server := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")} // nobody asks for a name
	for _, cfg := range []relay.Config{
		{Nickname: "chiverelay", AssumeReachable: true, Contact: "lab"},
		{Nickname: "chiveexit", AssumeReachable: true, Contact: "lab", Exit: &exit.Config{Policy: policy, Private: true, Nameservers: server}},
	} {
		r.names = append(r.names, cfg.Nickname)
		r.cfgs = append(r.cfgs, cfg)
		r.chive = append(r.chive, runRelay(t, &network, cfg))
	}
	return r
}

// shared returns the newest consensus method that all authorities vote for.
func (r *releases) shared() int {
	all := r.vote(0).Methods
	for i := range r.net.Authorities {
		methods := r.vote(i).Methods
		all = slices.DeleteFunc(slices.Clone(all), func(m int) bool { return !slices.Contains(methods, m) })
	}
	return slices.Max(all)
}

// signed waits for a round of which every authority has signed the consensuses, and C tor's
// authorities have published them; they must list every relay. It returns their method.
func (r *releases) signed(n int, authorities []string) int {
	r.t.Helper()
	var c *netdoc.Consensus
	r.await("a consensus that all sign, with all relays", patience, func() bool {
		if !r.agreed(n, n+len(authorities)) || slices.ContainsFunc(authorities, func(a string) bool { return !r.sameAsCTor(a) }) {
			return false
		}
		var err error
		if c, err = netdoc.ParseConsensus(r.authorityNet.chive[0].Consensus(netdoc.FlavorMicrodesc), nil, nil); err != nil {
			r.t.Fatal(err)
		}
		return !slices.ContainsFunc(r.names, func(name string) bool {
			return !slices.ContainsFunc(c.Routers, func(rs netdoc.RouterStatus) bool { return rs.Nickname == name && rs.Flags.Has(netdoc.FlagRunning) })
		})
	})
	return c.Method
}

// sameVotes compares the votes of Chive's first authority and of the last, C tor's, on
// protocols and microdescriptors. Both know the same methods.
func (r *releases) sameVotes() {
	r.t.Helper()
	r.await("votes on the same descriptors", patience, func() bool {
		ours, theirs := r.vote(0), r.vote(len(r.net.Authorities)-1)
		compared := 0
		for i := range ours.Routers {
			a := &ours.Routers[i]
			for j := range theirs.Routers {
				if b := &theirs.Routers[j]; a.Descriptor == b.Descriptor {
					compared++
					if !slices.Equal(a.Microdescs, b.Microdescs) {
						r.t.Fatalf("%s: microdescriptors %q, not %q", a.Nickname, a.Microdescs, b.Microdescs)
					}
				}
			}
		}
		for _, p := range [][2]string{
			{ours.RecommendedClient.String(), theirs.RecommendedClient.String()}, {ours.RecommendedRelay.String(), theirs.RecommendedRelay.String()},
			{ours.RequiredClient.String(), theirs.RequiredClient.String()}, {ours.RequiredRelay.String(), theirs.RequiredRelay.String()},
		} {
			if p[0] != p[1] {
				r.t.Fatalf("protocols %s, not %s", p[0], p[1])
			}
		}
		return compared >= len(r.names)
	})
}

// use has a client of each kind use the network, and looks for warnings of C tor.
func (r *releases) use() {
	r.t.Helper()
	r.useCTor()
	r.useCTorAs("newclient")
	r.useChive()
	r.noWarnings(r.tor...)
}

// Authorities of Chive and of two releases of C tor sign one consensus, by the newest
// method that all of them know.
func TestMixedReleases(t *testing.T) {
	t.Parallel()
	needPrograms(t)
	authorities := []string{"ctor0", "newctor0"}
	r := newReleases(t, 1, authorities, nil)
	method := r.signed(1, authorities)
	if want := r.shared(); method != want {
		t.Errorf("method %d, and all authorities know %d", method, want)
	}
	t.Logf("method %d", method)
	r.use()
}

// Chive's authority and the newest C tor's sign consensuses by the newest method, also of
// relays that publish no TAP keys, because the authorities vote so.
func TestMixedNewestMethod(t *testing.T) {
	t.Parallel()
	needPrograms(t)
	authorities := []string{"newctor0"}
	r := newReleases(t, 2, authorities, []string{"ConsensusParams publish-dummy-tap-key=0"}, func(c *authority.Config) {
		c.Params = append(c.Params, netdoc.Param{Name: "publish-dummy-tap-key", Value: 0})
	})
	newest := slices.Max(authority.Methods)
	if method := r.signed(2, authorities); method != newest {
		t.Errorf("method %d", method)
	}
	r.sameVotes()
	// The first descriptors were made before the first consensus. C tor's relays make others
	// after a minute, when they have measured their bandwidth.
	without := func(names []string) bool {
		for i := range r.net.Authorities {
			for _, rs := range r.vote(i).Routers {
				if slices.Contains(names, rs.Nickname) && (len(rs.Microdescs) == 0 || !strings.HasPrefix(rs.Microdescs[0], "36")) {
					return false
				}
			}
		}
		return true
	}
	if without(r.names) {
		t.Error("no relay had a TAP key before the first consensus")
	}
	for i, c := range r.chive {
		r.await("a Chive relay's directory", patience, func() bool { return c.Directory() != nil })
		if err := c.Reload(r.cfgs[i]); err != nil {
			t.Fatal(err)
		}
	}
	r.await("votes of all authorities on descriptors without TAP keys", patience, func() bool { return without(r.names) })
	r.mu.Lock()
	clear(r.published)
	r.mu.Unlock()
	if method := r.signed(2, authorities); method != newest {
		t.Errorf("without TAP keys: method %d", method)
	}
	r.sameVotes()
	r.use()
	r.samePlatforms()
}

// samePlatforms has Chive's first authority and the last, C tor's, judge relays of many
// versions. No relay has a TAP key.
func (r *releases) samePlatforms() {
	for platform, want := range map[string]bool{
		"Tor 0.4.8.23 on Linux": false, "Tor 0.4.9.0-alpha-dev on Linux": false, "Tor 0.4.9.1-alpha on Linux": true, "Tor 0.4.9.1-alpha-dev on Linux": true,
		"Tor  0.4.9.11 on Linux": true, "Tor 0.4.9.15 (git-0123abcd) on Linux": true, "Tor 0.5.0.1-alpha on FreeBSD": true, "Tor 0.3.5.18 (git-0123abcd) on Linux": false,
		"Tor on Linux": false, "Tor 0.4.9.11 (git-xy) on Linux": false, "Chive 0.1.0 on linux": true, "Arti 1.9.0": true,
	} {
		keys, now := oddKeys(r.t, nil), time.Now()
		keys.Onion = nil
		d, err := (&netdoc.RouterDesc{Nickname: "odd", Addr: netip.MustParseAddr("127.0.0.1"), ORPort: 9, Published: now, Platform: platform, Proto: "Link=4-5 Relay=2-4",
			BandwidthRate: 1 << 20, BandwidthBurst: 1 << 20, BandwidthObserved: 1 << 20, Policy: netdoc.ExitPolicy{{Ports: netdoc.AllPorts}}}).Sign(rand.Reader, keys, now)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, a := range []netdir.Authority{r.net.Authorities[0], r.net.Authorities[len(r.net.Authorities)-1]} {
			res, err := http.Post("http://"+a.DirPort.String()+"/tor/", "text/plain", bytes.NewReader(d.Text))
			if err != nil {
				r.t.Fatal(err)
			}
			res.Body.Close()
			if (res.StatusCode == 200) != want {
				r.t.Errorf("%s, %q: %s", a.Nickname, platform, res.Status)
			}
		}
	}
}
