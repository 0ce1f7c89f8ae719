package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// pipes is a listener whose connections are in memory, for virtual time.
type pipes struct {
	in   chan net.Conn
	done chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.in:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case p.in <- a:
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inTime runs f with a server on virtual time.
func inTime(t *testing.T, h http.HandlerFunc, f func(t *testing.T, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{in: make(chan net.Conn), done: make(chan struct{})}
		srv := &http.Server{Handler: h}
		go srv.Serve(p)
		f(t, p)
		close(p.done)
		srv.Close()
	})
}

// breaking serves ten bytes, and breaks off after a number of them.
func breaking(after func(attempt int) int) http.HandlerFunc {
	const doc = "0123456789"
	attempt := 0
	return func(w http.ResponseWriter, r *http.Request) {
		attempt++
		begin := 0
		w.Header().Set("ETag", `"a"`)
		switch r.Header.Get("Range") {
		case "":
			w.Header().Set("Content-Length", "10")
		case "bytes=4-":
			begin = 4
			w.Header().Set("Content-Range", "bytes 4-9/10")
			w.Header().Set("Content-Length", "6")
			w.WriteHeader(http.StatusPartialContent)
		default:
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if n := after(attempt); n >= begin {
			io.WriteString(w, doc[begin:n])
			w.(http.Flusher).Flush()
		}
	}
}

// TestRetries: a broken download goes on where it broke, on standard output too, after
// pauses that grow, and not for ever.
func TestRetries(t *testing.T) {
	inTime(t, breaking(func(n int) int { return []int{4, 4, 10}[n-1] }), func(t *testing.T, p *pipes) {
		var b strings.Builder
		notes := 0
		began := time.Now()
		err := Get(t.Context(), Options{URLs: []string{"http://h.test/"}, Stdout: &b, Dial: p.dial, Retries: 2, Note: func(string) { notes++ }})
		if err != nil || b.String() != "0123456789" || notes != 2 || time.Since(began) != 3*time.Second {
			t.Error(err, b.String(), notes, time.Since(began))
		}
	})
	attempts := 0
	inTime(t, breaking(func(n int) int { attempts = n; return 4 }), func(t *testing.T, p *pipes) {
		began := time.Now()
		err := Get(t.Context(), Options{URLs: []string{"http://h.test/"}, Out: filepath.Join(t.TempDir(), "f"), Dial: p.dial, Retries: 7})
		if want := (1 + 2 + 4 + 8 + 16 + 30 + 30) * time.Second; !fault.Is(err, fault.Network) || attempts != 8 || time.Since(began) != want {
			t.Error(err, attempts, time.Since(began))
		}
	})
}

// TestNoReturn: what is on standard output cannot be taken back.
func TestNoReturn(t *testing.T) {
	inTime(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "01")
	}, func(t *testing.T, p *pipes) {
		var b strings.Builder
		err := Get(t.Context(), Options{URLs: []string{"http://h.test/"}, Stdout: &b, Dial: p.dial, Retries: 5})
		if !errors.Is(err, errNoReturn) || b.String() != "01" {
			t.Error(err, b.String())
		}
	})
}

// TestTimes: each limit ends what it is about.
func TestTimes(t *testing.T) {
	silent := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "01")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	run := func(t *testing.T, p *pipes, o Options) (time.Duration, error) {
		began := time.Now()
		o.URLs, o.Stdout = []string{"http://h.test/"}, io.Discard
		if o.Dial == nil {
			o.Dial = p.dial
		}
		err := Get(t.Context(), o)
		return time.Since(began), err
	}
	inTime(t, silent, func(t *testing.T, p *pipes) {
		if took, err := run(t, p, Options{}); !fault.Is(err, fault.Network) || took != quiet {
			t.Error("a quiet connection:", err, took)
		}
		if took, err := run(t, p, Options{Timeout: time.Second, Retries: 5}); !fault.Is(err, fault.Timeout) || !errors.Is(err, errWhole) || took != time.Second {
			t.Error("the whole:", err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		never := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		if took, err := run(t, p, Options{Dial: never, ConnectTimeout: 3 * time.Second}); !fault.Is(err, fault.Network) || !errors.Is(err, errConnect) || took != 3*time.Second {
			t.Error("connecting:", err, took)
		}
		if err := Get(ctx, Options{URLs: []string{"http://h.test/", "http://h.test/2"}, Out: "-", Stdout: io.Discard, Dial: never}); !fault.Is(err, fault.Timeout) {
			t.Error("the caller:", err)
		}
		refused := 0
		dial := func(context.Context, string, string) (net.Conn, error) { refused++; return nil, syscall.ECONNREFUSED }
		if took, err := run(t, p, Options{Dial: dial, Retries: 5}); err == nil || refused != 1 || took != 0 {
			t.Error("refused:", err, refused, took)
		}
	})
}

// TestProgress: it is reported now and then, with a rate.
func TestProgress(t *testing.T) {
	inTime(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		for range 10 {
			time.Sleep(time.Second)
			w.Write(make([]byte, 100))
			w.(http.Flusher).Flush()
		}
	}, func(t *testing.T, p *pipes) {
		var all []Progress
		err := Get(t.Context(), Options{URLs: []string{"http://h.test/"}, Stdout: io.Discard, Dial: p.dial, Show: func(p Progress) { all = append(all, p) }})
		if err != nil || len(all) < 10 || all[0].Have != 0 || all[0].Total != 1000 {
			t.Fatal(err, all)
		}
		if last := all[len(all)-1]; last.Have != 1000 || last.Rate < 80 || last.Rate > 150 {
			t.Errorf("%+v", last)
		}
	})
}
