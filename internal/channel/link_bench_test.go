package channel

import "testing"

// BenchmarkLinkHandshake is both ends' work for one link over loopback: TLS with
// the post-quantum group, certificates, and, for a relay, AUTHENTICATE.
func BenchmarkLinkHandshake(b *testing.B) {
	for name, c := range map[string]struct {
		initiator LinkConfig
		responder *RelayKeys
	}{
		"client":    {LinkConfig{}, otherKeys(b)},
		"relay":     {LinkConfig{Identity: keys(b)}, otherKeys(b)},
		"to bridge": {LinkConfig{}, keys(b)},
	} {
		b.Run(name, func(b *testing.B) {
			initiator, responder := &c.initiator, &LinkConfig{Identity: c.responder}
			b.ReportAllocs()
			for b.Loop() {
				dialled, accepted := tcpPair(b)
				l, r, err, rErr := shake(b, dialled, accepted, c.responder.ID, initiator, responder)
				if err != nil || rErr != nil {
					b.Fatal(err, rErr)
				}
				l.Conn.NetConn().Close()
				r.Conn.NetConn().Close()
			}
		})
	}
}
