package chive

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"crypto/sha256"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsclient"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/role"
)

// Client is a Tor client inside this program. Its methods may be called from
// any goroutine.
//
// A Client returned by Isolated shares everything with its parent except
// circuits.
type Client struct {
	*core
	token uint64 // isolates; zero for the client that New returned
}

// core is the part that a client and its isolated children share.
type core struct {
	cfg   Config // the argument of New, with the defaults filled in
	mu    sync.Mutex
	given Config // guarded by mu: the argument of New or the last Reload
	over  bool   // guarded by mu: Close was called
	// Guarded by mu: keys for onion services, of given and of AddOnionClientKey.
	configured, added hsclient.Keys
	inner             *client.Client
	dir               *role.Dir // nil without a data directory
	events            eventHub
	metrics           metrics.Registry
	tokens            atomic.Uint64
	alone             atomic.Uint64 // streams with circuits of their own
	closing           sync.Once
	closed            error // the result of Close; written in closing
	web               httpClients
}

// New starts a client: it loads the data directory and begins to fetch missing
// documents. It does not wait for them: DialContext waits by itself, and Wait
// only waits. Close ends the client.
//
// It is an error if another client uses the data directory, or if an option
// cannot be applied.
func New(cfg Config) (*Client, error) { return newOver(cfg, client.Over{}) }

// newOver is New for a client with something of its own.
func newOver(cfg Config, over client.Over) (*Client, error) {
	cfg = role.Copy(cfg)
	read, err := cfg.read()
	if err != nil {
		return nil, err
	}
	given := cfg
	if cfg.Network == nil {
		cfg.Network = PublicNetwork()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	co := &core{given: given, cfg: cfg, configured: read.OnionKeys}
	dir, err := co.openDir()
	if err != nil {
		return nil, err
	}
	inner := cfg.inner(dir, read)
	inner.Metrics = &co.metrics
	inner.Hooks = co.hooks()
	inner.Dial, inner.Prompt, inner.Rest, inner.Unused = over.Dial, over.Prompt, over.Rest, over.Unused
	if co.inner, err = client.New(inner); err != nil {
		return nil, errors.Join(err, co.dir.Close())
	}
	return &Client{core: co}, nil
}

var errReloadClosed = fault.Also(fault.New(fault.Closed, "reload: the client is closed"), net.ErrClosed)

// Reload takes over the fields of cfg that may change while the client runs: those
// that Config marks with reload:"live". They hold for streams from now on; where
// other relays are wanted, open circuits take no new streams. The other fields must
// be as New got them: ErrConfig names those that are not. After an error everything
// is as before; ErrClosed: the client is closed.
func (c *Client) Reload(cfg Config) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return errReloadClosed
	}
	if err := role.CheckReload(&c.given, &cfg); err != nil {
		return err
	}
	cfg = role.Copy(cfg)
	next := cfg
	cfg.Network, cfg.Transports, next.Transports = c.cfg.Network, c.cfg.Transports, c.given.Transports
	read, err := cfg.read()
	if err != nil {
		return err
	}
	keys, err := read.OnionKeys.Join(c.added)
	if err != nil {
		return options.Wrong("ClientOnionAuth", "%w; the other one was added while the client runs", err)
	}
	if (len(c.given.Bridges) > 0) != (len(cfg.Bridges) > 0) {
		return options.Wrong("Bridges", "reload: a client with bridges needs some, and one without cannot get any while it runs: start another one")
	}
	c.configured, read.OnionKeys = read.OnionKeys, keys
	c.inner.Reload(read.Live)
	c.given = next
	c.web.renew() // idle connections may be on circuits that are wanted no more
	return nil
}

// Config returns the configuration that New or the last successful Reload
// received.
func (c *Client) Config() Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return role.Copy(c.given)
}

// openDir makes and locks the network's own directory in the data directory.
func (co *core) openDir() (string, error) {
	base := co.cfg.DataDir
	if base == "" {
		var err error
		if base, err = DefaultDataDir(); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(base, dirName(co.cfg.Network.dir))
	var err error
	co.dir, err = role.OpenDir(dir)
	return dir, err
}

// dirName names a network's directory: its name, and a digest of its authorities,
// so that two networks with the same name do not share their guards.
func dirName(n *netdir.Network) string {
	h := sha256.New()
	for _, id := range n.V3Idents() {
		h.Write(id[:])
	}
	return n.Name + "-" + hex.EncodeToString(h.Sum(nil)[:4])
}

// inner returns the configuration for the internal package.
func (cfg *Config) inner(dir string, r choices) client.Config {
	out := client.Config{
		Network: cfg.Network.dir, Dir: dir, Log: cfg.Logger,
		NumEntryGuards: cfg.NumEntryGuards, NumDirectoryGuards: cfg.NumDirectoryGuards,
		Live: r.Live, BuildTimeout: cfg.CircuitBuildTimeout,
		CGO: cfg.CGO.inner(), Congestion: cfg.CongestionControl.inner(), Conflux: cfg.Conflux.inner(),
		RejectInternal: cfg.ClientRejectInternalAddresses.inner(), RejectInternalAnswers: cfg.ClientDNSRejectInternalAddresses.inner(),
		PQ: cfg.PQ.inner(), RequireOnionPQ: cfg.RequireOnionPQ, Fast: cfg.Appearance == AppearanceFast, Padding: cfg.Padding.inner(), CircuitPadding: cfg.CircuitPadding.inner(), Vanguards: cfg.Vanguards.inner(), OnionMaxEffort: cfg.onionMaxEffort(),
	}
	out.MaxMemory = account.BoundOf(cfg.MaxMemory)
	out.Outbound = r.outbound
	out.Upstream, out.Inside = r.upstream, r.inside
	return out
}

// Wait waits until the client can carry traffic: it has a directory, and has
// built a circuit. If ctx ends first, the error says how far the client has come.
func (c *Client) Wait(ctx context.Context) error { return c.inner.Wait(ctx) }

// DialContext opens a stream to a host and port, such as "example.com:443",
// through an exit that the client chooses; the exit looks names up. network is
// "tcp", "tcp4" or "tcp6"; the latter two restrict the exit to one address
// family, and refuse an address of the other. A host below .onion is an onion service: no exit takes part, and the
// ErrOnion errors say why it cannot be reached.
//
// The connection also has the methods CloseWrite, WriteTo and ReadFrom. The
// function fits http.Transport's DialContext and x/net's proxy.ContextDialer.
func (c *Client) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	req, err := c.request(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return asker{c}.DialRequest(ctx, req)
}

// Dial is DialContext without a context.
func (c *Client) Dial(network, addr string) (net.Conn, error) {
	return c.DialContext(context.Background(), network, addr)
}

// request reads what a program asks for, once: nothing behind it reads texts or the context's values.
func (c *Client) request(ctx context.Context, network, addr string) (client.Request, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return client.Request{}, fault.New(fault.Config, "dial: %w", err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return client.Request{}, fault.New(fault.Config, "dial: %q is not a port", port)
	}
	w := wishOf(ctx)
	req := client.Request{Host: host, Port: uint16(n), Key: w.key(c), Early: w.early}
	req.Family, err = w.familyOn(network)
	return req, err
}

// Isolated returns a client whose streams share no circuit with those of any
// other, of its parent or another child. It uses the same guards: they belong to
// the user, not to an activity. Close on a child does nothing.
func (c *Client) Isolated() *Client {
	return &Client{core: c.core, token: c.tokens.Add(1)}
}

// NewIdentity makes the client, its parent and all children use no circuit for
// new streams that has had streams before. Circuits that nobody has used stay, as
// in C tor; with AppearanceFast no existing circuit is used. Open streams continue,
// but their HTTP clients close idle connections, and use no open one for later
// requests. A program that keeps connections itself must do the same.
func (c *Client) NewIdentity() {
	c.inner.NewIdentity()
	c.web.renew() // not before: a new connection could still be on an old circuit
}

// Events returns a channel of all events from now on, and a function that ends
// the subscription and closes the channel; Close does so too. The first event is
// a BootstrapEvent with the present state. A subscriber that is more than 256
// events behind loses events.
func (c *Client) Events() (<-chan Event, func()) {
	return c.events.subscribe(allEvents, false, c.bootstrapEvent)
}

// Subscribe is Events for some kinds of events, as in BootstrapEvents|CircuitEvents, and its channel has a
// *LostEvent where events were lost. The first event is a BootstrapEvent only if that kind is asked for.
func (c *Client) Subscribe(kinds EventKinds) (<-chan Event, func()) {
	return c.events.subscribe(kinds, true, c.bootstrapEvent)
}

func (c *Client) bootstrapEvent() Event {
	return &BootstrapEvent{time.Now(), BootstrapStatus(c.inner.Bootstrap())}
}

// Close ends the client at once, with its circuits and streams, and waits until
// all its goroutines have ended. The error says what could not be saved. It may
// be called again; on a client that Isolated returned it does nothing.
func (c *Client) Close() error {
	if c.token != 0 {
		return nil
	}
	c.closing.Do(func() {
		c.endReload()
		c.closed = errors.Join(c.inner.Close(), c.dir.Close())
		c.events.close()
	})
	return c.closed
}

// endReload keeps Reload from a data directory that may soon be another client's.
func (c *Client) endReload() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// Done is closed when the client opens no more streams: because of Close, or
// because it cannot continue; then Err says why. Call Close in both cases, to
// release files and memory.
func (c *Client) Done() <-chan struct{} { return c.inner.Done() }

// Err returns why the client cannot continue, for example because the network
// requires a protocol that this version does not have; nil while it runs, and
// after Close.
func (c *Client) Err() error { return c.inner.Err() }

// WriteMetrics writes the client's metrics as Prometheus text.
func (c *Client) WriteMetrics(w io.Writer) error { return c.metrics.WritePrometheus(w) }
