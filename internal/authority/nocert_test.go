package authority

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/netdoc"
)

// TestSignaturesBeforeCertificate: of signatures that an authority of the network made, and whose certificate is not here yet, it is
// not said that no authority made them.
func TestSignaturesBeforeCertificate(t *testing.T) {
	const n = 2
	identities, signings := keyPool(t, 2048, n), keyPool(t, 2048, n)
	synctest.Test(t, func(t *testing.T) {
		all, _ := inMemory(t, n, identities, signings, nil)
		votes := votesOf(t, all)
		for _, a := range all {
			for _, v := range votes {
				if err := a.addVote(v, true); err != nil {
					t.Fatal(err)
				}
			}
		}
		own, err := all[1].compute()
		if err != nil {
			t.Fatal(err)
		}
		d, err := netdoc.ParseDetachedSignatures(own)
		if err != nil {
			t.Fatal(err)
		}
		a := all[0]
		for pair, c := range a.certs {
			if c.Identity == all[1].me {
				delete(a.certs, pair)
			}
		}
		if _, err := a.addSignatures(d, netip.Addr{}); !errors.Is(err, errNoCertificate) {
			t.Error(err)
		}
		for i := range d.Signatures {
			d.Signatures[i].Identity[0]++
		}
		if _, err := a.addSignatures(d, netip.Addr{}); !errors.Is(err, errUnknownAuthority) {
			t.Error(err)
		}
	})
}
