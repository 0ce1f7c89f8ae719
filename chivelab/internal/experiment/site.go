package experiment

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
)

// Site is a network on which an experiment is measured, with who measures.
type Site struct {
	Network   *netdir.Network
	Path      []ident.RSAID  // of the experiment's path
	Echo, Web netip.AddrPort // the targets, as the last relay of the path reaches them
	Dial      func(context.Context, netip.AddrPort) (net.Conn, error)

	emulated *links.Net      // nil: nobody here emulates its links
	running  context.Context // ends, with a cause, when a node has ended that should not; nil: nobody knows
	close    func() error
}

// broken is why the network is not what it was any more.
func (at *Site) broken() error {
	if at.running == nil || at.running.Err() == nil {
		return nil
	}
	return context.Cause(at.running)
}

// lateness is that of the emulator, if there is one.
func (at *Site) lateness() links.Lateness {
	if at.emulated == nil {
		return links.Lateness{}
	}
	return at.emulated.Lateness()
}

// emulate starts the network of a file in this process.
func emulate(ctx context.Context, f *File, session int) (at *Site, err error) {
	n, access, named := f.layout()
	// Another session has other luck: the same again would tell nothing new.
	nw, err := startNetwork(ctx, f.Seed<<8+uint64(session), n, access)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, nw.close())
		}
	}()
	at = &Site{Dial: nw.client.Dial, emulated: nw.net, close: nw.close}
	if at.Network, err = nw.directory(); err != nil {
		return nil, err
	}
	names := make([]string, len(f.Path))
	for i, name := range f.Path {
		names[i] = named[name]
	}
	if at.Path, err = nw.path(names); err != nil {
		return nil, err
	}
	if at.Echo, err = netip.ParseAddrPort(nw.Echo); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if at.Web, err = netip.ParseAddrPort(hostOf(nw.URL(1))); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	return at, nil
}

// hostOf returns the address in a URL of the target.
func hostOf(url string) string {
	url = strings.TrimPrefix(url, "http://")
	host, _, _ := strings.Cut(url, "/")
	return host
}
