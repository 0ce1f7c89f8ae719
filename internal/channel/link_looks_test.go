package channel

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// TestCertsLikeCtor: CERTS has C tor's certificates in its order, with those that are of no use any more, and the
// TLS certificate's life is one that C tor draws.
func TestCertsLikeCtor(t *testing.T) {
	k := keys(t)
	for name, c := range map[string]struct {
		body []byte
		want []uint8
	}{"responder": {k.responder, []uint8{1, 2, 4, 5, 7}}, "initiator": {k.initiator, []uint8{3, 2, 4, 6, 7}}} {
		certs, err := cell.ParseCerts(c.body)
		if err != nil {
			t.Fatal(err)
		}
		var types []uint8
		for _, c := range certs {
			types = append(types, c.Type)
		}
		if !slices.Equal(types, c.want) {
			t.Errorf("%s: certificates of types %v, not %v", name, types, c.want)
		}
		x, err := x509.ParseCertificate(certs[0].Body)
		if err != nil {
			t.Fatal(err)
		}
		if bits := x.PublicKey.(*rsa.PublicKey).N.BitLen(); bits != map[string]int{"responder": 2048, "initiator": 1024}[name] {
			t.Errorf("%s: a key of %d bits", name, bits)
		}
		if sum := sha256.Sum256(certs[0].Body); (sum == k.leafSum) != (name == "responder") {
			t.Errorf("%s: the first certificate is that of TLS: %v", name, sum == k.leafSum)
		}
		const day = 24 * time.Hour
		if life := x.NotAfter.Sub(x.NotBefore); life < 5*day-time.Second || life > 364*day || life%day != 0 && life%day != day-time.Second {
			t.Errorf("%s: the certificate is valid for %v", name, life)
		}
	}
}
