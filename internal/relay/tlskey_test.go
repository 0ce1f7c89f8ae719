package relay

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"net"
	"testing"
)

// TestTLSKey: only a relay that everybody knows has a TLS key of another kind than C tor's.
func TestTLSKey(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		common bool
	}{
		"listed": {func(c *Config) { c.NoPublish = false }, false},
		"bridge": {func(c *Config) { c.Bridge, c.Exit = true, nil }, true},
		"hidden": {func(*Config) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := startVictim(t, c.change)
			raw, err := new(net.Dialer).DialContext(within(t), "tcp", v.Target().Addrs[0].String())
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			// Its certificate is signed by a key that a cell names later.
			conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
			if err := conn.HandshakeContext(within(t)); err != nil {
				t.Fatal(err)
			}
			switch key := conn.ConnectionState().PeerCertificates[0].PublicKey.(type) {
			case *rsa.PublicKey:
				if !c.common || key.N.BitLen() != 2048 {
					t.Errorf("RSA of %d bits", key.N.BitLen())
				}
			case *ecdsa.PublicKey:
				if c.common {
					t.Error("an ECDSA key, which C tor does not have")
				}
			}
		})
	}
}
