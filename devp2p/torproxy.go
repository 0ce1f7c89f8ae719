package devp2p

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/proxy"

	"github.com/chivenet/chive/devp2p/internal/torctl"
)

// TorProxyConfig says where a Tor daemon is.
type TorProxyConfig struct {
	// SOCKS is the daemon's SOCKS port: an IP address and a port, or "unix:" and a path.
	// Empty: "127.0.0.1:9050". Host names are refused: nothing here looks names up.
	SOCKS string
	// Control is its control port, in the same forms. Empty: ListenOnion fails.
	Control string
	// Password is that of its HashedControlPassword. Without it, the daemon's cookie
	// counts, of CookieFile, or else of the file that the daemon names.
	Password   string
	CookieFile string
	// Log gets no address, name or key. Nil: no log.
	Log *slog.Logger
}

// TorProxy uses a Tor daemon: its SOCKS port to reach onions, isolated by user name and
// password, and its control port to host them (ADD_ONION). A service ends with the
// connection to the control port; if that is lost, it is made again. Incoming connections
// do not tell their circuit. The daemon must be on this machine to host an onion: it
// connects to a port of loopback here, which other users of the machine can reach, too.
func TorProxy(cfg TorProxyConfig) (Onions, error) {
	cfg.SOCKS = cmp.Or(cfg.SOCKS, "127.0.0.1:9050")
	if err := checkPort("SOCKS port", cfg.SOCKS); err != nil {
		return nil, err
	}
	if cfg.Control != "" {
		if err := checkPort("control port", cfg.Control); err != nil {
			return nil, err
		}
	}
	if strings.ContainsAny(cfg.Password, "\r\n\x00") {
		return nil, errors.New("devp2p: the password of the control port has a line break")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &torProxy{cfg: cfg}, nil
}

// checkPort checks a daemon's port.
func checkPort(what, text string) error {
	network, rest := torctl.Split(text)
	if network == "unix" {
		if rest == "" {
			return fmt.Errorf("devp2p: %s: unix: has no path after it", what)
		}
		return nil
	}
	if ap, err := netip.ParseAddrPort(rest); err != nil || ap.Port() == 0 {
		return fmt.Errorf("devp2p: %s: %q is neither an IP address and port nor unix: and a path", what, text)
	}
	return nil
}

type torProxy struct {
	cfg TorProxyConfig

	mu        sync.Mutex
	listeners map[*torListener]bool // guarded by mu
	closed    bool                  // guarded by mu
}

func (p *torProxy) DialOnion(ctx context.Context, addr, isolation string) (net.Conn, error) {
	if err := checkOnionAddr(addr); err != nil {
		return nil, err
	}
	var auth *proxy.Auth
	if isolation != "" {
		// A digest: the key may be longer than SOCKS allows, and the daemon need not know it.
		sum := sha256.Sum256([]byte(isolation))
		auth = &proxy.Auth{User: "devp2p", Password: hex.EncodeToString(sum[:])}
	}
	network, at := torctl.Split(p.cfg.SOCKS)
	d, err := proxy.SOCKS5(network, at, auth, nil)
	if err != nil {
		return nil, fmt.Errorf("devp2p: SOCKS: %w", err)
	}
	c, err := d.(proxy.ContextDialer).DialContext(ctx, "tcp", addr)
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err // without the onion
	}
	if err != nil {
		return nil, fmt.Errorf("SOCKS: %w", err)
	}
	return c, nil
}

func (p *torProxy) Close() error {
	p.mu.Lock()
	open := p.listeners
	p.listeners, p.closed = nil, true
	p.mu.Unlock()
	var errs []error
	for l := range open {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
