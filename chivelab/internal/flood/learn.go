package flood

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/stream"
)

// maxDocument bounds what is read of a directory.
const maxDocument = 16 << 20

// dirGet asks a DirPort for a document.
func dirGet(ctx context.Context, dirPort netip.AddrPort, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+dirPort.String()+path, nil)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	return dirDo(req)
}

// dirPost uploads a document to a DirPort.
func dirPost(ctx context.Context, dirPort netip.AddrPort, doc []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+dirPort.String()+"/tor/", bytes.NewReader(doc))
	if err == nil {
		_, err = dirDo(req)
	}
	return err
}

func dirDo(req *http.Request) ([]byte, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	res, err := client.Do(req)
	if err != nil {
		return nil, fault.Wrap(fault.Network, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxDocument))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fault.New(fault.Directory, "%s", res.Status)
	}
	return b, fault.Wrap(fault.Directory, err)
}

// learn asks an authority for a relay's descriptor.
func learn(ctx context.Context, dirPort netip.AddrPort, id ident.RSAID) (Peer, error) {
	b, err := dirGet(ctx, dirPort, "/tor/server/fp/"+id.String())
	if err != nil {
		return Peer{}, err
	}
	d, err := netdoc.ParseRouterDesc(b, time.Now())
	if err != nil {
		return Peer{}, err
	}
	return peerOf(d), nil
}

// learnAll asks an authority for all descriptors.
func learnAll(ctx context.Context, dirPort netip.AddrPort) (all []*netdoc.RouterDesc, err error) {
	b, err := dirGet(ctx, dirPort, "/tor/server/all")
	if err != nil {
		return nil, err
	}
	netdoc.ParseRouterDescs(b, time.Now(), func(d *netdoc.RouterDesc, bad error) {
		if bad != nil && err == nil {
			err = bad
		}
		all = append(all, d)
	})
	return all, err
}

// awaitConsensus waits until the victim serves a consensus: it then has its
// parameters.
func (v *victim) awaitConsensus(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := hasConsensus(ctx, &v.Peer)
		if err == nil {
			return nil
		}
		pause(ctx, 100*time.Millisecond)
		if ctx.Err() != nil {
			return fault.New(fault.Timeout, "%s has no consensus: %w", v.node, err)
		}
	}
}

func hasConsensus(ctx context.Context, p *Peer) error {
	var k kept
	defer k.close()
	if err := k.open(ctx, &attack{log: slog.New(slog.DiscardHandler)}, honestAddr, []*Peer{p}); err != nil {
		return err
	}
	s, err := stream.BeginDir(k.circ.Last())
	if err != nil {
		return err
	}
	defer s.Close()
	defer closeOn(ctx, s)()
	if _, err := fmt.Fprint(s, "GET /tor/status-vote/current/consensus-microdesc HTTP/1.0\r\n\r\n"); err != nil {
		return fault.Wrap(fault.Network, err)
	}
	b, err := io.ReadAll(io.LimitReader(s, maxDocument))
	if err == nil && !bytes.HasPrefix(b, []byte("HTTP/1.0 200")) && !bytes.HasPrefix(b, []byte("HTTP/1.1 200")) {
		err = fault.New(fault.Directory, "%.40q", b)
	}
	return err
}
