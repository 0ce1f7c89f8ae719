package daemon

import (
	"context"
	"log/slog"
	"net"
	"net/netip"

	"github.com/chivenet/chive/internal/clientpage"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/page"
	"github.com/chivenet/chive/internal/socks"
)

// ServePage opens a page for browsers of this machine, until stop. The URL has the page's token, so
// that it is for standard output, and not for the log. If the port ends by itself, fail hears why.
func ServePage(addr string, cfg page.Config, fail func(error)) (url string, stop func(), err error) {
	l, err := socks.Listen(addr)
	if err != nil {
		return "", nil, err
	}
	if err := page.CheckListener(l.Addr()); err != nil {
		l.Close()
		return "", nil, err
	}
	p := page.New(cfg)
	return p.URL(l.Addr()), serveLocal(p.Serve, l, cfg.Log, fail), nil
}

// checkPage checks the address of a page: loopback, or a unix socket.
func checkPage(s string) error {
	if err := socks.CheckAddr(s); err != nil {
		return err
	}
	at, err := netip.ParseAddrPort(s)
	if err != nil { // a port of loopback, or a unix socket
		return nil
	}
	return page.CheckListener(net.TCPAddrFromAddrPort(at))
}

// openPage opens the dashboard of a proxy, if it is to have one.
func (n *proxyNode) openPage(addr string, log *slog.Logger) error {
	if addr == "" {
		return nil
	}
	url, stop, err := ServePage(addr, page.Config{
		State: func() *page.State { return clientpage.State(n.client) },
		Follow: func(ctx context.Context, heard func(page.Event)) {
			clientpage.Follow(ctx, "this client", n.client, heard)
		},
		Log: log,
	}, n.ports.fail)
	if err != nil {
		return options.In("Page", err)
	}
	n.ports.lines, n.closePage = append(n.ports.lines, "page "+url), stop
	return nil
}
