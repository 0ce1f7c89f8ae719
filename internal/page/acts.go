package page

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Rules are what a reader wants of a link, in both directions.
type Rules struct {
	Delay time.Duration // one way
	Loss  float64       // the chance that a packet is lost
	Rate  int64         // bits a second; 0: no bound
}

// Traced is one cell, which carried an HTTP request of the laboratory's own from a client to an exit.
type Traced struct {
	Client  string    `json:"client"`
	Circuit uint64    `json:"circuit"`
	Command string    `json:"command"` // the relay command that the exit read
	Stream  uint16    `json:"stream"`
	Text    string    `json:"text"` // the request, as the exit read it
	Passed  []Passing `json:"passed"`
}

// Passing is a node that took one layer off the cell. The payloads are in hexadecimal digits.
type Passing struct {
	Node  string    `json:"node"`
	Layer string    `json:"layer"` // the kind of the layer that it took off
	Time  time.Time `json:"time"`
	Came  string    `json:"came"` // the payload as it came over the link
	Left  string    `json:"left"` // and without this node's layer
}

const (
	// maxForm bounds the body of a request.
	maxForm = 4 << 10
	// maxTrace bounds the time of a trace.
	maxTrace = 20 * time.Second
)

// act is what a POST can ask for, by the name in the address; nil: nobody can here.
func (p *Page) act(name string) func(context.Context, url.Values) (any, error) {
	switch {
	case name == "end" && p.cfg.End != nil:
		return func(_ context.Context, form url.Values) (any, error) {
			p.turn.Lock()
			defer p.turn.Unlock()
			return nil, p.cfg.End(form.Get("node"))
		}
	case name == "link" && p.cfg.Change != nil:
		return func(_ context.Context, form url.Values) (any, error) {
			r, err := rulesOf(form)
			if err != nil {
				return nil, err
			}
			p.turn.Lock()
			defer p.turn.Unlock()
			return nil, p.cfg.Change(form.Get("node"), r)
		}
	case name == "trace" && p.cfg.Trace != nil:
		return func(ctx context.Context, _ url.Values) (any, error) {
			if !p.tracing.TryLock() { // it holds up nothing else: a link that is too bad for it can be changed meanwhile
				return nil, fault.New(fault.Config, "a cell is being followed already")
			}
			defer p.tracing.Unlock()
			ctx, cancel := context.WithTimeout(ctx, maxTrace)
			defer cancel()
			return p.cfg.Trace(ctx)
		}
	}
	return nil
}

// rulesOf reads a form: milliseconds, percent, and kilobits a second.
func rulesOf(form url.Values) (r Rules, err error) {
	number := func(name string, most float64) float64 {
		v, bad := strconv.ParseFloat(form.Get(name), 64)
		if bad != nil || !(v >= 0 && v <= most) {
			err = fault.New(fault.Config, "%s: a number from 0 to %g", name, most)
		}
		return v
	}
	r.Delay = time.Duration(number("delay", 10_000) * float64(time.Millisecond))
	r.Loss = number("loss", 100) / 100
	r.Rate = int64(number("rate", 10_000_000) * 1000)
	return r, err
}

// do does what a POST from this very page asks for.
func (p *Page) do(w http.ResponseWriter, r *http.Request, name string) {
	act := p.act(name)
	switch origin := r.Header.Get("Origin"); {
	case act == nil:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "only POST", http.StatusMethodNotAllowed)
		return
	case !strings.EqualFold(origin, "http://"+r.Host): // the guard lets one without an Origin pass
		http.Error(w, "only the page itself may ask for this", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "this is no form", http.StatusBadRequest)
		return
	}
	if !p.hub.enter() { // the server does not wait for handlers, the hub does
		http.Error(w, "the page has closed", http.StatusServiceUnavailable)
		return
	}
	defer p.hub.left.Done()
	defer p.hub.change()
	answer, err := act(r.Context(), r.PostForm)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // an error means that the reader has gone
}
