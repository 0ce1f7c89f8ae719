package channel

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
)

// TestLongHelloCounts: TLS keeps the space for a long ClientHello as long as the link, so the link's account has it.
func TestLongHelloCounts(t *testing.T) {
	a, b := tcpPair(t)
	k, ctx, m := keys(t), context.Background(), account.New(1<<30)
	cfg := &LinkConfig{}
	conf := cfg.relayTLS("www.example.com")
	for range 200 {
		conf.NextProtos = append(conf.NextProtos, strings.Repeat("x", 255))
	}
	failed := make(chan error, 1)
	go func() {
		conn := tls.Client(a, conf)
		err := conn.HandshakeContext(ctx)
		if err == nil {
			c := &connecting{cfg: cfg, secured: secured{conn: conn, leaf: conn.ConnectionState().PeerCertificates[0].Raw}, cells: newHandshakeCells(conn, a), start: time.Now()}
			_, err = c.run(k.ID, netip.MustParseAddrPort("127.0.0.1:9001"))
		}
		failed <- err
	}()
	r, err := Accept(ctx, b, &LinkConfig{Identity: k, Memory: m})
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	ch := Start(r, &Config{Now: time.Now, Log: slog.New(slog.DiscardHandler), Memory: m})
	if got, sent := m.Used(), int64(200*255); got < linkCost+sent-usualHandshake {
		t.Errorf("%d bytes are on the account, after a message of %d", got, sent)
	}
	ch.Close(io.EOF)
	<-ch.Done()
	if got := m.Used(); got != 0 {
		t.Errorf("%d bytes are left on the account", got)
	}
}
