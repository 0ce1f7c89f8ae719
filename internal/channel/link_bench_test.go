package channel

import "testing"

// BenchmarkLinkHandshake is both ends' work for one link over loopback: TLS with
// the post-quantum group, certificates, and, for a relay, AUTHENTICATE.
func BenchmarkLinkHandshake(b *testing.B) {
	responder := &LinkConfig{Identity: keys(b)}
	for name, initiator := range map[string]*LinkConfig{"client": {}, "relay": {Identity: otherKeys(b)}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				dialled, accepted := tcpPair(b)
				l, r, err, rErr := shake(b, dialled, accepted, keys(b).ID, initiator, responder)
				if err != nil || rErr != nil {
					b.Fatal(err, rErr)
				}
				l.Conn.NetConn().Close()
				r.Conn.NetConn().Close()
			}
		})
	}
}
