package authority

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// publicRouters makes up the relays of a vote.
func publicRouters(t testing.TB, n int) (out []netdoc.RouterStatus) {
	t.Helper()
	made, err := dirgen.New(dirgen.Options{Relays: n, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = netdoc.ParseConsensus(made.Consensus, new(netdoc.Interner), func(rs *netdoc.RouterStatus) error {
		r := *rs
		r.ORAddrs = append([]netip.AddrPort(nil), rs.ORAddrs...)
		copy(r.Descriptor[:], r.Microdesc[:])
		copy(r.Ed[:], r.Microdesc[:])
		r.Ed[0] ^= 1
		r.Published, r.EdListed = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), true
		r.Policy = &netdoc.PortPolicy{Ranges: []netdoc.PortRange{{Lo: 1, Hi: 65535}}}
		r.Stats = fmt.Sprintf("wfu=%.6f tk=%d mtbf=%d", 0.97, 691200+len(out), 1000000+17*len(out))
		r.Microdescs = []string{microLine([]string{"32", "33", "34", "35"}, r.Microdesc), microLine([]string{"36", "37"}, [32]byte(r.Ed))}
		out = append(out, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestVotesAreKeptOnce: of a vote, an authority keeps the text alone, and computes the consensus from that. After the round
// it keeps less, and still gives everybody the same bytes.
func TestVotesAreKeptOnce(t *testing.T) {
	identities, signings := keyPool(t, 2048, 2), keyPool(t, 2048, 2)
	routers := publicRouters(t, 50)
	synctest.Test(t, func(t *testing.T) {
		all, _ := inMemory(t, 2, identities, signings, nil)
		a := all[0]
		at := a.startRound()
		texts := map[string][]byte{}
		for i, x := range all {
			v, err := x.makeVote(at)
			if err != nil {
				t.Fatal(err)
			}
			v.Routers = routers
			if v, err = v.Sign(a.cfg.Rand, x.cfg.Keys.Signing); err != nil {
				t.Fatal(err)
			}
			texts[x.me.String()], texts[fmt.Sprintf("d/%x", v.Digest)] = v.Text, v.Text
			if i == 0 {
				err = a.addVote(v, false)
			} else if res := a.postVotes(bytes.Clone(v.Text)); res.Status != 200 {
				err = fmt.Errorf("%d %s", res.Status, res.Reason)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, v := range a.round.votes {
			if v.Routers != nil || v.Relays != len(routers) {
				t.Errorf("a vote of %d relays, %d are kept", v.Relays, len(v.Routers))
			}
		}
		if _, err := a.compute(); err != nil || len(a.round.pending[0].Routers) != len(routers) {
			t.Fatal(err)
		}
		same := func(when string) {
			t.Helper()
			for name, text := range texts {
				got := get(t, a, "/tor/status-vote/"+when+"/"+name)
				if len(got) != 1 || !bytes.Equal(got[0].Bytes(), text) {
					t.Errorf("%s/%s: %d votes, or another one", when, name, len(got))
				}
			}
		}
		same("next")
		a.startRound()
		for _, v := range a.last {
			if v.whole != nil || len(v.packed) > v.size/2 {
				t.Errorf("%d bytes are kept of a vote of %d", len(v.packed), v.size)
			}
		}
		same("current")
		id := a.me.String()
		if one, two := get(t, a, "/tor/status-vote/current/"+id), get(t, a, "/tor/status-vote/current/"+id); one[0] != two[0] {
			t.Error("everybody who asks gets a copy")
		}
		if got := get(t, a, "/tor/status-vote/next/"+id); len(got) != 0 {
			t.Error("a vote of the last round is given as one of this")
		}
	})
}

// TestVoteTextChanged: what is not a vote any more makes no consensus.
func TestVoteTextChanged(t *testing.T) {
	var votes []*netdoc.Vote
	text := bytes.Clone(readFile(t, "three/v3-status-votes"))
	netdoc.CheckVotes(text, 9, nil, func(v *netdoc.Vote, err error) {
		if err != nil {
			t.Fatal(err)
		}
		votes = append(votes, v)
	})
	if _, _, err := Compute(votes, Rules{Authorities: 3}); err != nil {
		t.Fatal(err)
	}
	for i := bytes.LastIndex(text, []byte("\nr ")) + 3; text[i] != '\n'; i++ {
		text[i] = '!'
	}
	if _, _, err := Compute(votes, Rules{Authorities: 3}); err == nil {
		t.Error("a consensus of garbage")
	}
}
