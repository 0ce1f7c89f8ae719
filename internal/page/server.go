package page

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/localhttp"
	"github.com/chivenet/chive/internal/netaddr"
)

//go:embed web
var files embed.FS

// Config says what the page shows. Its functions are called only while somebody looks.
type Config struct {
	State func() *State
	// Follow calls heard for each event until ctx ends, and then returns; nil: no events. heard returns at once.
	Follow func(ctx context.Context, heard func(Event))
	// End ends a node by its name, and waits for that; nil: no node can be ended here.
	End func(node string) error
	// Change changes the link of a node; nil: links cannot be changed here.
	Change func(node string, r Rules) error
	// Trace sends a request, and follows the cell that carries it; nil: nothing can be followed here.
	Trace func(context.Context) (*Traced, error)
	Log   *slog.Logger // nil: silent
}

// Page is a page that can be served.
type Page struct {
	cfg   Config
	token string
	hub   hub
	turn  sync.Mutex // one act after the other

	tracing sync.Mutex // one trace at a time
}

// New makes a page, with a token of its own.
func New(cfg Config) *Page {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Page{cfg: cfg, token: rand.Text(), hub: hub{state: cfg.State, follow: cfg.Follow, log: cfg.Log}}
}

// CheckListener reports whether a page may be served at an address: loopback, or a unix socket.
func CheckListener(a net.Addr) error {
	if a.Network() == "unix" {
		return nil
	}
	if ip := netaddr.Of(a); !ip.IsLoopback() {
		return fault.New(fault.Config, "%s: the page is for this machine: give an address of loopback, or unix:PATH", a)
	}
	return nil
}

// URL returns where the page is, with the token: who has it may look, and act. For a unix socket the
// host is localhost.
func (p *Page) URL(a net.Addr) string {
	host := a.String()
	if a.Network() == "unix" {
		host = "localhost"
	}
	return "http://" + host + "/" + p.token + "/"
}

// Serve serves the page until ctx ends, and closes l. All goroutines have ended then. The error is
// that of ctx, or says why the listener failed.
func (p *Page) Serve(ctx context.Context, l net.Listener) error {
	s := &localhttp.Server{Handler: p, Guard: localhttp.Guard{Loopback: true}, Log: p.cfg.Log, Port: "page"}
	err := s.Serve(ctx, l)
	p.hub.close()
	return err
}

// policy lets the page load its own files, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// types are the media types of the files.
var types = map[string]string{
	"page.html": "text/html; charset=utf-8", "page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8",
	"graph.js": "text/javascript; charset=utf-8", "acts.js": "text/javascript; charset=utf-8",
}

// ServeHTTP answers a request that the guard has let pass.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // the address has the token
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	token, name, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(p.token)) != 1 {
		http.Error(w, "the address has no token, or a wrong one: take the line that the program has printed", http.StatusForbidden)
		return
	}
	if name == "" {
		name = "page.html"
	}
	switch {
	case name == "end" || name == "link" || name == "trace":
		p.do(w, r, name)
	case r.Method != http.MethodGet:
		h.Set("Allow", http.MethodGet)
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
	case name == "events":
		p.events(w, r)
	case types[name] != "":
		p.file(w, name)
	default:
		http.NotFound(w, r)
	}
}

func (p *Page) file(w http.ResponseWriter, name string) {
	b, err := files.ReadFile("web/" + name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", types[name])
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // an error means that the reader has gone
}

// patience is how long a reader may take for one message.
const patience = 5 * time.Second

// events sends states and events until the reader leaves.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	me, err := p.hub.join()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer p.hub.leave(me)
	defer localhttp.Keep(r.Context())() // a reader is not idle
	out := http.NewResponseController(w)
	// The time for a request is over soon: this one lasts.
	if err := out.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		select {
		case <-r.Context().Done():
			return
		case b, ok := <-me.c:
			if !ok {
				return
			}
			if err := out.SetWriteDeadline(time.Now().Add(patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
				return
			}
			if _, err := w.Write(b); err != nil || out.Flush() != nil {
				return
			}
		}
	}
}
