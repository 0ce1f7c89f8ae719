package netdir

import (
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// marked gives all relays of a consensus the flag MiddleOnly.
func marked(doc []byte) []byte {
	var b strings.Builder
	for line := range strings.Lines(string(doc)) {
		if strings.HasPrefix(line, "s ") {
			line = strings.Replace(line, " Running", " MiddleOnly Running", 1)
		}
		b.WriteString(line)
	}
	return []byte(b.String())
}

// TestMiddleOnlyIsCopied: a relay of the directory has the flag MiddleOnly if the consensus says
// so. Clients read the flavour microdesc; authorities, and relays that mirror, read both.
func TestMiddleOnlyIsCopied(t *testing.T) {
	var l Loader
	d, _, err := l.Consensus(marked(read(t, "ctor/consensus-microdesc")), nil)
	if err != nil || d.Len() == 0 {
		t.Fatal(err)
	}
	for r := range d.All() {
		if !r.Has(FlagMiddleOnly) {
			t.Errorf("%s: %v", r.Nickname(), r.Flags())
		}
	}
	n := 0
	_, err = netdoc.ParseConsensus(marked(read(t, "ctor/consensus-ns")), nil, func(rs *netdoc.RouterStatus) error {
		n++
		if !rs.Flags.Has(netdoc.FlagMiddleOnly) {
			t.Errorf("ns, %s: %v", rs.Nickname, rs.Flags)
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Errorf("ns: %d relays, %v", n, err)
	}
}

// TestMiddleOnlyIsNoHSDir: such a relay is on no hash ring, even if it has the flag HSDir.
func TestMiddleOnlyIsNoHSDir(t *testing.T) {
	d := ctor(t)
	for i := range d.relays {
		d.relays[i].flags |= FlagHSDir
	}
	suspect := d.Relay(3)
	d.relays[3].flags |= FlagMiddleOnly
	ring := d.HSRing(hscrypto.Period{Num: 1, Minutes: 1440}, [32]byte{})
	all := ring.Responsible(ident.Ed25519ID{1}, 2, d.Len())
	if len(all) != d.Len()-1 {
		t.Errorf("%d relays of %d are on the ring", len(all), d.Len())
	}
	for _, r := range all {
		if r == suspect {
			t.Error("a MiddleOnly relay keeps descriptors")
		}
	}
}
