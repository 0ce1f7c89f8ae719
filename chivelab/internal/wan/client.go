package wan

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/socksclient"
)

// work is what a client is told first: the program of the onion router that it starts and uses.
type work struct {
	Program  []string      `json:"program"`
	Ready    string        `json:"ready"` // is in the line by which the program says that it has bootstrapped
	Target   string        `json:"target"`
	Requests []Request     `json:"requests"`
	Patience time.Duration `json:"patience"`
}

// Lines between a client and the run.
const (
	sayReady = "ready"
	sayGo    = "go"
	sayOver  = "over"
	proxyAt  = "127.0.0.1:9050"
)

// answer is what became of a request.
type answer struct {
	Request int     `json:"request"`
	First   float64 `json:"first"` // milliseconds until the first byte
	Total   float64 `json:"total"` // and until the last
	Failed  string  `json:"failed,omitempty"`
}

// ServeClient is the process of a client. It reads its work, starts the onion router and says that it is ready; with each
// "go" it makes its requests and says what became of them. It ends with its input.
func ServeClient(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		return fault.New(fault.Config, "a client without work: %w", lines.Err())
	}
	var w work
	if err := json.Unmarshal(lines.Bytes(), &w); err != nil || len(w.Program) == 0 {
		return fault.New(fault.Config, "a client's work: %v", err)
	}
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	p, _, err := child.Run(starting, nil, exec.Command(w.Program[0], w.Program[1:]...), func(line string) bool { return strings.Contains(line, w.Ready) })
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := w.first(starting); err != nil {
		return fault.New(fault.KindOf(err), "%w; the router said: %s", err, p.LastWords())
	}
	if _, err := fmt.Fprintln(out, sayReady); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	for lines.Scan() {
		if lines.Text() != sayGo {
			return fault.New(fault.Config, "a client is told %q", lines.Text())
		}
		if err := w.all(ctx, out); err != nil {
			return err
		}
	}
	return fault.Wrap(fault.Local, lines.Err())
}

// first makes a request that has the circuit built. Until then some fail, for a relay that does not know the network yet.
func (w *work) first(ctx context.Context) error {
	for {
		a := w.fetch(ctx, Request{Size: 1})
		if a.Failed == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Timeout, "no page came: %s", a.Failed)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// workOf is what a client does with any program.
func (p *Plan) workOf(c Client) work {
	return work{Target: netip.AddrPortFrom(targetAddr, webPort).String(), Requests: c.Requests, Patience: p.Patience}
}

// readAnswer reads a line of a client that has so many requests.
func readAnswer(line string, requests int) (a answer, err error) {
	if err := json.Unmarshal([]byte(line), &a); err != nil || a.Request < 0 || a.Request >= requests || !(a.First >= 0) || a.Total < a.First {
		return a, fault.New(fault.Local, "%q is no answer", line)
	}
	return a, nil
}

// all makes the requests, each at its time.
func (w *work) all(ctx context.Context, out io.Writer) error {
	last := time.Duration(0)
	for _, r := range w.Requests {
		last = max(last, r.At)
	}
	began := time.Now()
	ctx, cancel := context.WithDeadline(ctx, began.Add(last+w.Patience))
	defer cancel()
	answers := make([]answer, len(w.Requests))
	var running sync.WaitGroup
	for i, r := range w.Requests {
		running.Go(func() {
			select {
			case <-time.After(r.At - time.Since(began)):
				answers[i] = w.fetch(ctx, r)
			case <-ctx.Done():
				answers[i].Failed = "ended before it began"
			}
			answers[i].Request = i
		})
	}
	running.Wait()
	for _, a := range answers {
		b, err := json.Marshal(a)
		if err != nil {
			return fault.Wrap(fault.Local, err)
		}
		if _, err := fmt.Fprintf(out, "%s\n", b); err != nil {
			return fault.Wrap(fault.Local, err)
		}
	}
	_, err := fmt.Fprintln(out, sayOver)
	return fault.Wrap(fault.Local, err)
}

// fetch asks for a page over a connection of its own.
func (w *work) fetch(ctx context.Context, r Request) answer {
	began := time.Now()
	first, err := w.get(ctx, r.Size)
	if err != nil {
		if ctx.Err() != nil {
			return answer{Failed: "it took too long"}
		}
		return answer{Failed: strings.Join(strings.Fields(err.Error()), " ")}
	}
	return answer{First: millis(first.Sub(began)), Total: millis(time.Since(began))}
}

// get returns when the first byte came.
func (w *work) get(ctx context.Context, size int64) (first time.Time, err error) {
	conn, err := socksclient.Dialer{Proxy: proxyAt}.DialContext(ctx, "tcp", w.Target)
	if err != nil {
		return first, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := fmt.Fprintf(conn, "GET /bytes/%d HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", size, w.Target); err != nil {
		return first, fault.Wrap(fault.Network, err)
	}
	b := bufio.NewReaderSize(conn, 64<<10)
	if _, err := b.Peek(1); err != nil {
		return first, fault.Wrap(fault.Network, err)
	}
	first = time.Now()
	res, err := http.ReadResponse(b, nil)
	if err != nil {
		return first, fault.Wrap(fault.Network, err)
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	switch {
	case err != nil:
		return first, fault.Wrap(fault.Network, err)
	case res.StatusCode != http.StatusOK || n != size:
		return first, fault.New(fault.Network, "a page of %d bytes came with %d, %s", size, n, res.Status)
	}
	return first, nil
}

// ServeTarget is the process of the server: GET /bytes/N sends N bytes.
func ServeTarget(ctx context.Context, addr string) error {
	t, err := listenTarget(addr)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { t.close() })
	defer stop()
	return t.serve()
}

// millis is a time as samples have it.
func millis(d time.Duration) float64 { return float64(d) / 1e6 }
