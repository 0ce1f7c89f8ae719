package builtin

import (
	"context"
	"net"
	"net/netip"

	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/ptspec"
	"github.com/chivenet/chive/internal/transport"
)

// Dial connects to a bridge and does the transport's handshake.
func (t Transport) Dial(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), bridge netip.AddrPort, args map[string]string) (net.Conn, error) {
	d, err := t.Dialer(args)
	if err != nil {
		return nil, err
	}
	raw, err := dial(ctx, "tcp", bridge.String())
	if err != nil {
		return nil, err
	}
	c := d.Wrap(raw)
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return c, nil
}

// Listen opens a bridge's port.
func (t Transport) Listen(ctx context.Context, cfg transport.ServerConfig) (net.Listener, map[string]string, error) {
	l, err := cfg.Listen(ctx, "tcp", cfg.Addr.String())
	if err != nil {
		return nil, nil, err
	}
	// Connections before their handshake are the transport's own, and the bridge does not count them.
	own := fte.ListenConfig{MaxConns: cfg.MaxConns, MaxMemory: cfg.MaxMemory, MaxPending: min(max(32, cfg.MaxConns/16), fte.DefaultMaxPending)}
	ln, tell, err := t.Listener(l, cfg.Options, cfg.Dir, own)
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	if t.name == "fte" && publicKey(tell) {
		cfg.Log.Warn("the transport fte has fteproxy's built-in key, which is public: everybody can look through it")
	}
	return ln, tell, nil
}

// publicKey reports whether the transport fte has the key that everybody knows.
func publicKey(tell ptspec.Args) bool {
	k, err := fte.ParseKey(tell["key"])
	return tell["key"] == "" || err == nil && k == fte.DefaultKey
}
