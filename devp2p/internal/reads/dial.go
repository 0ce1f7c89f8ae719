package reads

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"time"
)

// A Dialer connects to an address of the form HOST:PORT through Tor. Connections with different
// isolation keys share no circuit.
type Dialer func(ctx context.Context, addr, isolation string) (net.Conn, error)

const (
	maxAccounts = 32               // accounts whose connections are kept
	keepOpen    = 45 * time.Second // for which a connection is kept that nobody uses
	chainTime   = 10 * time.Minute // after which an upstream's chain ID is checked again
)

// An account is what belongs to one isolation key: connections, which no other key uses. TLS
// sessions are not resumed, so that the upstream cannot tell by them which accounts are one user's.
type account struct {
	key    string
	client *http.Client

	mu      sync.Mutex
	checked time.Time // guarded by mu: when the upstream told the right chain ID
}

// accounts are the accounts that were used last.
type accounts struct {
	address *Address
	dial    Dialer
	roots   *x509.CertPool // nil: the system's

	mu  sync.Mutex
	all []*account // guarded by mu: the one that was used last is the last
}

// get returns the account of a key.
func (a *accounts) get(key string) *account {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, c := range a.all {
		if c.key == key {
			a.all = append(append(a.all[:i:i], a.all[i+1:]...), c)
			return c
		}
	}
	if len(a.all) >= maxAccounts {
		a.all[0].client.CloseIdleConnections()
		a.all = a.all[1:]
	}
	c := &account{key: key, client: a.httpClient(key)}
	a.all = append(a.all, c)
	return c
}

// forget ends an account's connections, and what was found out over them.
func (a *accounts) forget(c *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, other := range a.all {
		if other == c {
			a.all = append(a.all[:i:i], a.all[i+1:]...)
		}
	}
	c.client.CloseIdleConnections()
}

// close ends all connections that nobody uses.
func (a *accounts) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.all {
		c.client.CloseIdleConnections()
	}
	a.all = nil
}

// httpClient returns a client whose connections have one isolation key. It follows no redirection,
// asks for no compression, since a small answer could become a large one, and knows no proxy of the
// environment.
func (a *accounts) httpClient(key string) *http.Client {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if a.address.Local() {
				return new(net.Dialer).DialContext(ctx, "unix", a.address.socket)
			}
			return a.dial(ctx, a.address.hostPort(), "rpc-upstream/"+key)
		},
		TLSClientConfig:    &tls.Config{RootCAs: a.roots, MinVersion: tls.VersionTLS12},
		DisableCompression: true, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout: keepOpen, MaxIdleConnsPerHost: 2, MaxConnsPerHost: 4,
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
