package interop

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// Chive and C tor authorities compute the same consensus: each accepts the
// others' signatures.
func TestMixedAuthorities(t *testing.T) {
	t.Parallel()
	needPrograms(t)
	bwFile := filepath.Join(t.TempDir(), "v3bw")
	if err := os.WriteFile(bwFile, fmt.Appendf(nil, "%d\n", time.Now().Unix()), 0o600); err != nil {
		t.Fatal(err)
	}
	an := newAuthorityNet(t, 2, 2, 7, bwFile)
	an.startRelays(3, 2)
	measured := an.measure(bwFile, "relay0", "relay1", "relay2", "exit0")
	an.await("a round that all sign", patience, func() bool { return an.agreed(2, 4) })
	an.sameMeasurements(measured)
	an.await("C tor to publish it", patience, func() bool {
		return an.sameAsCTor("ctor0") && an.sameAsCTor("ctor1")
	})
	an.useCTor()
	an.useChive()
	an.noWarnings("relay0", "relay1", "relay2", "exit0", "exit1", "ctor0", "ctor1")
}

// measure does a bandwidth scanner's work: it writes a bandwidth file about
// relays as soon as they have identities.
func (an *authorityNet) measure(file string, names ...string) map[ident.RSAID]uint32 {
	an.t.Helper()
	out := map[ident.RSAID]uint32{}
	text := fmt.Sprintf("%d\nversion=1.4.0\nsoftware=lab\nlatest_bandwidth=2026-01-01T00:00:00\n=====\n", time.Now().Unix())
	for i, name := range names {
		an.await(name+" has an identity", patience, func() bool {
			fi, err := os.Stat(filepath.Join(an.dir, name, "fingerprint"))
			return err == nil && fi.Size() > 40
		})
		id := an.fingerprint(name)
		out[id] = uint32(100 * (i + 1))
		text += fmt.Sprintf("node_id=$%s bw=%d nick=%s\n", id, out[id], name)
	}
	next := file + ".new"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		an.t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		an.t.Fatal(err)
	}
	return out
}

// vote fetches the vote that an authority made last, which it has once the
// round is over.
func (an *authorityNet) vote(i int) (v *netdoc.Vote) {
	an.t.Helper()
	an.await("a vote of the round that is over", patience, func() bool {
		res, err := http.Get("http://" + an.net.Authorities[i].DirPort.String() + "/tor/status-vote/current/authority")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 {
			return false
		}
		if v, err = netdoc.ParseVote(text); err != nil {
			an.t.Fatal(err)
		}
		return true
	})
	return v
}

// sameMeasurements compares the vote of Chive's first authority with that of C
// tor's first one, from the same bandwidth file.
func (an *authorityNet) sameMeasurements(want map[ident.RSAID]uint32) {
	an.t.Helper()
	// The first round that all authorities sign may have begun before each had
	// read the file.
	var ours, theirs *netdoc.Vote
	an.await("votes with the file's measurements", patience, func() bool {
		ours, theirs = an.vote(0), an.vote(len(an.chive))
		return maps.Equal(measurements(ours), want) && maps.Equal(measurements(theirs), want)
	})
	if ours.BandwidthFileHeaders == "" || ours.BandwidthFileHeaders != theirs.BandwidthFileHeaders || ours.BandwidthFileDigest != theirs.BandwidthFileDigest {
		an.t.Errorf("the file's headers and digest:\n%q %q\n%q %q", ours.BandwidthFileHeaders, ours.BandwidthFileDigest, theirs.BandwidthFileHeaders, theirs.BandwidthFileDigest)
	}
	an.await("a consensus with them", patience, func() bool {
		c, err := netdoc.ParseConsensus(an.chive[0].Consensus(netdoc.FlavorMicrodesc), nil, nil)
		if err != nil {
			an.t.Fatal(err)
		}
		n := 0
		for i := range c.Routers {
			if r := &c.Routers[i]; want[r.RSA] != 0 && !r.Unmeasured && r.Bandwidth == want[r.RSA] {
				n++
			}
		}
		return n == len(want)
	})
}

// measurements returns the measured bandwidths in a vote.
func measurements(v *netdoc.Vote) map[ident.RSAID]uint32 {
	out := map[ident.RSAID]uint32{}
	for i := range v.Routers {
		if r := &v.Routers[i]; r.HasMeasured {
			out[r.RSA] = r.Measured
		}
	}
	return out
}

// The authorities agree with each consensus method that C tor knows: Chive's
// authorities vote for one only, and C tor's follows. The methods that need the newest
// tor are TestMixedMethods/36 and /37.
func TestMixedMethods(t *testing.T) {
	needPrograms(t)
	if os.Getenv("CHIVE_LONG") == "" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: it takes a minute, and package authority has what it found as vectors; CHIVE_LONG=1 runs it")
	}
	for _, method := range authority.Methods {
		t.Run(fmt.Sprint(method), func(t *testing.T) {
			const pack = "tor 0.4.9.11 https://example.com/tor.tar.gz sha256=0123"
			name := "ctor0"
			if method >= netdoc.NoTAPMethod {
				name = "newctor0"
			}
			an := newNamedAuthorityNet(t, 3, []string{name}, nil, 6, "", func(c *authority.Config) {
				c.Methods, c.Packages = []int{method}, []string{pack}
			})
			an.startRelays(3, 2)
			an.await("C tor to publish what all sign", patience, func() bool { return an.agreed(3, 4) && an.sameAsCTor(name) })
			if dir := os.Getenv("CHIVE_KEEP"); dir != "" {
				keep(t, filepath.Join(an.dir, name), filepath.Join(dir, fmt.Sprintf("method%d", method)))
			}
			c, err := netdoc.ParseConsensus(an.chive[0].Consensus(netdoc.FlavorMicrodesc), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			hidden := len(c.Routers) > 0 && c.Routers[0].Published.Year() == 2038
			if c.Method != method || (len(c.Packages) == 1) != (method < 34) || hidden != (method >= 33) {
				t.Errorf("method %d, packages %q, published %v", c.Method, c.Packages, hidden)
			}
			an.noWarnings("relay0", "relay1", "relay2", "exit0", "exit1", name)
		})
	}
}

// keep copies what a C tor authority voted on and published.
func keep(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"v3-status-votes", "cached-consensus", "cached-microdesc-consensus"} {
		b, err := os.ReadFile(filepath.Join(from, f))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, f), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A complete run of the shared randomness protocol takes 24 rounds: four minutes.
// All authorities agree on the value.
func TestMixedSharedRandom(t *testing.T) {
	needPrograms(t)
	if os.Getenv("CHIVE_LONG") == "" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: it takes up to ten minutes; CHIVE_LONG=1 runs it")
	}
	an := newAuthorityNet(t, 2, 2, 7, "")
	an.startRelays(3, 2)
	var value *netdoc.SharedRandom
	an.await("a shared random value", 10*time.Minute, func() bool {
		an.mu.Lock()
		defer an.mu.Unlock()
		for _, list := range an.published {
			for _, c := range list {
				if c.SharedRandCurrent != nil && len(c.Signatures) == 4 && c.SharedRandCurrent.Reveals == 4 {
					value = c.SharedRandCurrent
				}
			}
		}
		return value != nil
	})
	t.Logf("%d reveals: %x", value.Reveals, value.Value)
}
