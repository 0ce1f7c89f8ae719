package authority

import (
	"bytes"
	"crypto/rand"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/netdoc"
)

// An authority that was not there when the others sent their votes gets them all, also if
// together they are larger than any document that it takes.
func TestLargeVotesFetched(t *testing.T) {
	identities, signings := keyPool(t, 2048, 5), keyPool(t, 2048, 5)
	synctest.Test(t, func(t *testing.T) {
		all, w := inMemory(t, 5, identities, signings, nil)
		late, other := all[0], all[1]
		at := late.startRound()
		other.startRound()
		stats := string(bytes.Repeat([]byte("x"), maxUpload/4))
		for _, a := range all[1:] {
			v, err := a.makeVote(at)
			if err != nil {
				t.Fatal(err)
			}
			v.Routers = []netdoc.RouterStatus{{Nickname: "large", Published: at.start, Addr: netip.AddrFrom4([4]byte{10, 0, 0, 1}), Stats: stats}}
			if v, err = v.Sign(rand.Reader, a.cfg.Keys.Signing); err == nil {
				err = other.addVote(v, false)
			}
			if err != nil {
				t.Fatal(err)
			}
			w.cut[a.cfg.DirPort] = a != other
		}
		late.fetchVotes(t.Context(), at)
		if n := len(late.round.votes); n != 4 {
			t.Errorf("%d of 4 votes were fetched", n)
		}
		if w.sent > 5 { // one is for its own
			t.Errorf("%d requests for 4 votes", w.sent)
		}
	})
}
