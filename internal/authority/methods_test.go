package authority

import (
	"bytes"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// The "m" lines of a vote, about descriptors with and without TAP keys, are those of
// tor 0.4.9.15.
func TestMicrodescLines(t *testing.T) {
	v := readVotes(t, newest)[0]
	descs := map[[20]byte]*netdoc.RouterDesc{}
	netdoc.ParseRouterDescs(readFile(t, newest+"/descriptors"), v.ValidAfter, func(d *netdoc.RouterDesc, err error) {
		if err != nil {
			t.Fatal(err)
		}
		descs[d.Digest] = d
	})
	if !slices.Equal(v.Methods, Methods) {
		t.Errorf("C tor votes for the methods %v", v.Methods)
	}
	lines := 0
	for i := range v.Routers {
		rs := &v.Routers[i]
		r := &relay{desc: descs[rs.Descriptor]}
		if r.desc == nil {
			t.Fatalf("%s: no descriptor", rs.Nickname)
		}
		var got []string
		for _, m := range r.madeOf(Methods).micro {
			got = append(got, microLine(m.methods, m.digest))
		}
		lines += len(got)
		if !slices.Equal(got, rs.Microdescs) {
			t.Errorf("%s:\n%s\nnot\n%s", rs.Nickname, strings.Join(got, "\n"), strings.Join(rs.Microdescs, "\n"))
		}
	}
	if lines < len(v.Routers)+3 {
		t.Errorf("%d lines: the data does not have what differs", lines)
	}
}

// An authority votes for the protocols that tor 0.4.9.15 votes for.
func TestVotedProtocols(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	want := readVotes(t, newest)[0]
	synctest.Test(t, func(t *testing.T) {
		all, _ := inMemory(t, 1, identities, signings, nil)
		got, err := all[0].makeVote(all[0].startRound())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			what      string
			got, want protover.Set
		}{
			{"recommended, clients", got.RecommendedClient, want.RecommendedClient}, {"recommended, relays", got.RecommendedRelay, want.RecommendedRelay},
			{"required, clients", got.RequiredClient, want.RequiredClient}, {"required, relays", got.RequiredRelay, want.RequiredRelay},
		} {
			if c.got.String() != c.want.String() || c.got.String() == "" {
				t.Errorf("%s: %s, not %s", c.what, c.got, c.want)
			}
		}
	})
}

// Only an authority that serves clients of C tor 0.4.8 needs relays' TAP keys: without one,
// it could vote on no microdescriptor.
func TestTAPKeyNeeded(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	relayKeys, onion := keyPool(t, 1024, 2), keyPool(t, 1024, 1)[0]
	for _, methods := range [][]int{nil, Methods048(), {36}} {
		synctest.Test(t, func(t *testing.T) {
			all, _ := inMemory(t, 1, identities, signings, func(_ int, c *Config) { c.Methods = methods })
			a := all[0]
			with, without := newTestRelay(t, 0, relayKeys[0], onion), newTestRelay(t, 1, relayKeys[1], nil)
			if status, words := a.upload(netip.Addr{}, with.sign(t).Text); status != 200 {
				t.Errorf("%v: with a TAP key: %s", methods, words)
			}
			status, words := a.upload(netip.Addr{}, without.sign(t).Text)
			if refused := status == 400 && strings.Contains(words, "TAP key"); refused != (len(methods) == 4) || !refused && status != 200 {
				t.Errorf("%v: without a TAP key: %d %s", methods, status, words)
			}
			v, err := a.makeVote(a.startRound())
			if err != nil {
				t.Fatal(err)
			}
			for _, rs := range v.Routers {
				if len(rs.Microdescs) == 0 {
					t.Errorf("%v: no microdescriptor of %s", methods, rs.Nickname)
				}
			}
		})
	}
}

// Relays of C tor 0.4.8 are refused, as tor 0.4.9.15 refuses them. Other programs' versions
// are not judged.
func TestRefusedPlatforms(t *testing.T) {
	for platform, refused := range map[string]bool{
		"Tor 0.4.8.23 on Linux":                true,
		"Tor 0.4.8.0-alpha-dev on Linux":       true,
		"Tor 0.4.9.0-alpha-dev on Linux":       true,
		"Tor 0.3.5.18 (git-0123abcd) on Linux": true,
		"Tor 0.4.9.1-alpha on Linux":           false,
		"Tor 0.4.9.1-alpha-dev on Linux":       false,
		"Tor  0.4.9.11 on Linux":               false,
		"Tor 0.4.9.15 (git-0123abcd) on Linux": false,
		"Tor 0.5.0.1-alpha on FreeBSD":         false,
		"Tor 1.0.0 on Linux":                   false,
		"Tor":                                  false, // not C tor's form
		"Tor ":                                 true,
		"Tor on Linux":                         true,
		"Tor 0.4.9.11x9.1 (git-xy) on Linux":   true,
		"Chive 0.1.0 on linux":                 false,
		"Arti 1.9.0 on linux":                  false,
		"":                                     false,
	} {
		if err := checkPlatform(platform); (err != nil) != refused {
			t.Errorf("%q: %v", platform, err)
		}
	}
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	key, onion := keyPool(t, 1024, 1)[0], keyPool(t, 1024, 1)[0]
	synctest.Test(t, func(t *testing.T) {
		all, _ := inMemory(t, 1, identities, signings, nil)
		r := newTestRelay(t, 0, key, onion)
		r.desc.Platform = "Tor 0.4.8.23 on Linux"
		if status, words := all[0].upload(netip.Addr{}, r.sign(t).Text); status != 400 || !strings.Contains(words, "upgrade") {
			t.Errorf("%d %s", status, words)
		}
		time.Sleep(time.Minute)
		r.desc.Platform = "Tor 0.4.9.15 on Linux"
		if status, words := all[0].upload(netip.Addr{}, r.sign(t).Text); status != 200 {
			t.Errorf("%d %s", status, words)
		}
	})
}

// If enough of the others vote for a newer method, an authority of an older configuration
// says so and computes by its own newest method; the others publish without it.
func TestOutvotedMethod(t *testing.T) {
	identities, signings := keyPool(t, 2048, 4), keyPool(t, 2048, 4)
	key, onion := keyPool(t, 1024, 1)[0], keyPool(t, 1024, 1)[0]
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		all, _ := inMemory(t, 4, identities, signings, func(i int, c *Config) {
			if i == 3 {
				c.Methods, c.Log = Methods048(), slog.New(slog.NewTextHandler(&log, nil))
			}
		})
		stop := run(t, all)
		r := newTestRelay(t, 0, key, onion).sign(t)
		for _, a := range all {
			if status, words := a.upload(netip.Addr{}, r.Text); status != 200 {
				t.Fatal(words)
			}
		}
		time.Sleep(30 * time.Second)
		stop()
		c, err := netdoc.ParseConsensus(all[0].Consensus(netdoc.FlavorMicrodesc), nil, nil)
		if err != nil || c.Method != 37 || len(c.Signatures) != 3 || len(c.Routers) != 1 {
			t.Errorf("%v: %+v", err, c)
		}
		if want := `"consensus method not supported" chosen=37 used=35`; !strings.Contains(log.String(), want) {
			t.Errorf("no %s in\n%s", want, log.String())
		}
	})
}
