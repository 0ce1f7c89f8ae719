package program

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"github.com/chivenet/chive/internal/localhttp"
)

// A Guard says which requests a local HTTP port answers. Loopback is no fence: a web page can send requests
// to a port of the machine that shows it, and, if its own name is made to point there (DNS rebinding), read
// the answers. The browser then names the page's host in the headers Host, Origin and Sec-Fetch-Site.
//
// The zero Guard lets a request pass whose Host is localhost or any IP address: nobody can make an address
// point elsewhere. Pages of other origins never pass.
type Guard struct {
	Names    []string // host names that pass too
	Loopback bool     // only addresses of loopback pass, and localhost
	NoPages  bool     // no request of a web page passes, not even of one that came from this port
	// Extensions are origins of browser extensions that pass nevertheless, such as
	// "chrome-extension://ID" (see CheckExtension).
	Extensions []string
}

// CheckExtension reports whether s is an origin for Guard.Extensions: a scheme of extensions and the ID of
// one. A web page's origin is none, and neither is one that stands for several.
func CheckExtension(s string) error { return localhttp.CheckExtension(s) }

// MaxHTTPConns bounds the open connections of an HTTPServer.
const MaxHTTPConns = localhttp.MaxOpen

// An HTTPServer answers HTTP for programs of this machine, and for those that the guard lets in, with the
// bounds that this asks for: MaxHTTPConns connections, of which a new one takes the place of the one that
// is without a request for the longest time, short headers, and little time for each request.
type HTTPServer struct {
	Handler http.Handler
	Guard   Guard
	Log     *slog.Logger // nil: silent
	Name    string       // names the port in the log
}

// Serve answers requests until ctx ends, and then closes l and all connections. The error is that of ctx
// then, or says why the listener failed. A handler that panics is an error of the server (500), and is
// counted.
func (s *HTTPServer) Serve(ctx context.Context, l net.Listener) error {
	inner := &localhttp.Server{Handler: s.Handler, Guard: localhttp.Guard(s.Guard), Log: s.Log, Port: s.Name}
	return inner.Serve(ctx, l)
}

// KeepConn saves the connection of a request from making room for others until done is called, for a
// request whose answer takes long. ctx is that of the request.
func KeepConn(ctx context.Context) (done func()) { return localhttp.Keep(ctx) }
