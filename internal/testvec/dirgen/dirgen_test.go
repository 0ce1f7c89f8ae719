package dirgen

import (
	"bytes"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

func TestNet(t *testing.T) {
	n, err := New(Options{Relays: 300, Authorities: 5})
	if err != nil {
		t.Fatal(err)
	}
	c, err := netdoc.ParseConsensus(n.Consensus, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	certs := map[netdoc.KeyPair]*netdoc.AuthCert{}
	netdoc.ParseAuthCerts(n.Certs, func(c *netdoc.AuthCert, err error) {
		if err != nil {
			t.Fatal(err)
		}
		certs[c.KeyPair()] = c
	})
	if v := c.Verify(n.Network.V3Idents(), func(kp netdoc.KeyPair) *netdoc.AuthCert { return certs[kp] }, n.ValidAfter); len(v.Valid) != 5 {
		t.Errorf("%+v", v)
	}
	d, err := n.Directory()
	if err != nil || d.Len() != 300 || d.Usability().Path != 1 {
		t.Fatal(err, d.Usability())
	}
	same := 0
	for a := range d.All() {
		for b := range d.All() {
			if a != b && d.SameFamily(a, b) {
				same++
			}
		}
	}
	if same == 0 {
		t.Error("no families")
	}
	before := n.Consensus
	n.Churn(0.1)
	if err := n.Publish(n.ValidAfter.Add(time.Hour)); err != nil || bytes.Equal(before, n.Consensus) {
		t.Fatal(err)
	}
	if next, err := n.Directory(); err != nil || next.Len() != 300 || !next.ValidAfter().Equal(d.FreshUntil()) {
		t.Fatal(err)
	}
}
