package daemon

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/proxydial"
	"github.com/chivenet/chive/internal/socks"
)

// innerSocket is the name of the inner port inside the data directory: an HTTP CONNECT
// proxy that every client has, for commands of the same user that need a connection.
const innerSocket = "connect.sock"

// openInner opens the inner port. Only other commands need it, so the process runs even if
// it cannot be opened, or fails later.
func (ps *localPorts) openInner(c client.Asker, dataDir string, reg *metrics.Registry) {
	l, err := socks.ListenUnix(filepath.Join(dataDir, innerSocket))
	if err != nil {
		ps.log.Warn("chive get will not be able to use this process", "err", err)
		return
	}
	srv := socks.NewHTTP(socks.Config{Dialer: proxydial.Dialer{Client: c}, Log: ps.log, Metrics: reg, Name: "inner"})
	ps.servers = append(ps.servers, srv)
	ps.serve(func() error {
		if err := srv.Serve(l); err != nil {
			ps.log.Error("the port for chive get is closed", "err", err)
		}
		return nil
	})
}

// Through is the way through the client of another process.
type Through struct {
	path  string
	token string // its streams share no circuit with others
}

// JoinClient finds the client that runs with the data directory of these settings, and
// checks that it does what they ask for. It fails if the client has another network, or
// another value of an option that the command line or the file sets.
func (s *Settings) JoinClient(ctx context.Context) (*Through, error) {
	r, ok := s.role.(*proxyRole)
	if !ok {
		return nil, errors.New("these are no client's settings")
	}
	cfg, err := r.config(nil)
	if err != nil {
		return nil, err
	}
	digest, err := networkDigest(cfg.Network)
	if err != nil {
		return nil, err
	}
	given := s.Given(options.Client)
	delete(given, "data-dir")
	answer, err := askReply(ctx, cfg.DataDir, request{Do: askAgree, Network: digest, Options: given})
	if err != nil {
		return nil, err
	}
	if len(answer.Differ) > 0 {
		return nil, fault.New(fault.Config, "the client that runs has other values of these options: %s: leave them out to use it as it is, or give --data-dir another directory, for a client of its own",
			strings.Join(answer.Differ, ", "))
	}
	return &Through{path: filepath.Join(cfg.DataDir, innerSocket), token: rand.Text()}, nil
}

// DialContext connects to a host and port through the other process's client.
func (t *Through) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if network != "tcp" {
		return nil, fault.New(fault.Config, "dial: the network %q cannot be used", network)
	}
	if strings.ContainsFunc(addr, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, fault.New(fault.Config, "dial: the host is neither an address nor a host name")
	}
	c, err := socks.DialUnix(ctx, t.path)
	if err != nil {
		return nil, fault.New(fault.Local, "the client that runs cannot be used: %w", err)
	}
	conn, err := t.connect(ctx, c, addr)
	if err != nil {
		c.Close()
		return nil, err
	}
	return conn, nil
}

// connect asks for a connection on c.
func (t *Through) connect(ctx context.Context, c net.Conn, addr string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, panics.Contain(slog.New(slog.DiscardHandler), nil, func() { c.SetDeadline(time.Unix(1, 0)) }))
	defer stop()
	br := bufio.NewReader(c)
	_, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nTor-Stream-Isolation: %s\r\n\r\n", addr, addr, t.token)
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	}
	switch {
	case ctx.Err() != nil:
		return nil, fault.New(fault.Timeout, "connect through the client that runs: %w", context.Cause(ctx))
	case err != nil:
		return nil, fault.New(fault.Network, "connect through the client that runs: %w", err)
	case resp.StatusCode != http.StatusOK:
		return nil, fault.New(kindOf(resp.StatusCode), "connect through the client that runs: %s", resp.Status)
	}
	if !stop() {
		return nil, fault.New(fault.Timeout, "connect through the client that runs: %w", context.Cause(ctx))
	}
	return &buffered{c, br}, nil
}

// kindOf returns the kind of the error for which an HTTP CONNECT proxy answers with a code.
func kindOf(code int) fault.Kind {
	switch code {
	case http.StatusForbidden, http.StatusBadRequest:
		return fault.Refused
	case http.StatusGatewayTimeout:
		return fault.Timeout
	}
	return fault.Network
}

// buffered is a connection of which some bytes were read already.
type buffered struct {
	net.Conn
	br *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.br.Read(p) }
