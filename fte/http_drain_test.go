package fte

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// httpDrain is a server's proxy over HTTP that has been told to end.
type httpDrain struct {
	hs     *HTTPServer
	p      *Proxy
	client Transport
	served chan error
	cancel context.CancelFunc
	far    chan net.Conn // what the proxy dialled
	pause  atomic.Int64  // of each request, a Duration
	down   atomic.Bool   // the process is over
}

func newHTTPDrain(t *testing.T) *httpDrain {
	d := &httpDrain{served: make(chan error, 1), far: make(chan net.Conn, 1)}
	var server Transport
	d.client, server = chivePair(t, "hex", Protocol{})
	d.hs = &HTTPServer{Transport: server}
	d.p = &Proxy{Stats: new(Stats), Dial: func(context.Context) (net.Conn, error) {
		a, b := halfPipe()
		d.far <- b
		return a, nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	d.cancel = cancel
	go func() { d.served <- d.p.Serve(ctx, d.hs) }()
	return d
}

// RoundTrip is the way of one request to the server and back.
func (d *httpDrain) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(time.Duration(d.pause.Load()))
	if d.down.Load() {
		return nil, errors.New("refused")
	}
	return straight{d.hs, honestHTTP}.RoundTrip(r)
}

func (d *httpDrain) dial(t *testing.T) *Conn {
	t.Helper()
	raw, err := HTTPDialer{URL: "http://192.0.2.80/", Client: &http.Client{Transport: d}}.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d.client.Wrap(raw)
}

// end ends the server as its command does.
func (d *httpDrain) end(ctx context.Context, t *testing.T) (cut, shut error) {
	t.Helper()
	d.cancel()
	if err := <-d.served; err != nil {
		t.Error(err)
	}
	cut, shut = d.p.Drain(ctx), d.hs.Shutdown(ctx)
	d.down.Store(true)
	return cut, shut
}

// TestHTTPDrain ends a server while it sends: the client gets all of it, and its end.
func TestHTTPDrain(t *testing.T) {
	for name, first := range map[string]bool{"the server's end first": false, "the client's end first": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newHTTPDrain(t)
				c := d.dial(t)
				works := make(chan struct{})
				go func() {
					defer close(works)
					c.Write([]byte("?"))
					if first {
						c.CloseWrite()
					}
				}()
				far := <-d.far
				<-works
				if _, err := io.ReadFull(far, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				if first {
					if _, err := far.Read(make([]byte, 1)); err != io.EOF {
						t.Fatal(err)
					}
				}
				d.pause.Store(int64(3 * time.Second))
				msg := noise(300_000, 1)
				ended := make(chan error, 1)
				go func() {
					cut, shut := d.end(context.Background(), t)
					ended <- errors.Join(cut, shut)
				}()
				go func() {
					for at := 0; at < len(msg); at += 50_000 {
						time.Sleep(time.Second)
						far.Write(msg[at : at+50_000])
					}
					far.Close()
				}()
				got, err := io.ReadAll(c)
				if err != nil || !bytes.Equal(got, msg) {
					t.Errorf("%d of %d bytes arrived: %v", len(got), len(msg), err)
				}
				c.CloseWrite()
				c.Close()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				time.Sleep(3 * HTTPIdle)
			})
		})
	}
}

// TestHTTPDrainCut: when the time is over, the client sees that its connection broke.
func TestHTTPDrainCut(t *testing.T) {
	for name, ended := range map[string]bool{"a server that is silent": false, "a client that fetches nothing": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newHTTPDrain(t)
				c := d.dial(t)
				go func() { c.Write([]byte("?")); c.CloseWrite() }()
				far := <-d.far
				if _, err := io.ReadAll(far); err != nil {
					t.Fatal(err)
				}
				if ended {
					d.pause.Store(int64(time.Hour)) // the server's side ends, and nothing of it arrives
					time.Sleep(httpPollMost)
				}
				far.Write(noise(1000, 1))
				if ended {
					far.Close()
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				begun := time.Now()
				if cut, shut := d.end(ctx, t); !fault.Is(errors.Join(cut, shut), fault.Timeout) {
					t.Errorf("what was cut is not told: %v, %v", cut, shut)
				}
				if took := time.Since(begun); took != 10*time.Second {
					t.Error("it took", took)
				}
				if n, err := io.Copy(io.Discard, c); err == nil {
					t.Errorf("%d bytes look whole", n)
				}
				c.Close()
				time.Sleep(3 * HTTPIdle)
				if len(d.hs.sessions) != 0 || d.hs.mem.Used() != 0 {
					t.Errorf("%d sessions and %d bytes are left", len(d.hs.sessions), d.hs.mem.Used())
				}
			})
		})
	}
}

// TestHTTPDrainAtOnce: sessions whose clients have all that was written for them, and
// strangers, do not hold a server up; nobody begins a session then.
func TestHTTPDrainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newHTTPDrain(t)
		over, open := d.dial(t), d.dial(t)
		for _, c := range []*Conn{over, open} {
			go c.Write([]byte("?"))
			far := <-d.far
			go func() {
				io.Copy(far, far)
				far.(halfEnd).CloseWrite()
			}()
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if c == over {
				c.CloseWrite()
				if _, err := io.ReadAll(c); err != nil {
					t.Fatal(err)
				}
				c.Close()
			}
		}
		body, more := io.Pipe()
		stranger := make(chan int, 1)
		go func() { stranger <- post(t, d.hs, hostileHTTP, "/"+strings.Repeat("0", 2*sessionLen), body) }()
		time.Sleep(time.Second)
		begun := time.Now()
		ended := make(chan error, 1)
		go func() {
			cut, shut := d.end(context.Background(), t)
			ended <- errors.Join(cut, shut)
		}()
		synctest.Wait()
		late := d.dial(t)
		if err := late.Handshake(); err == nil {
			t.Error("a session begins after the end")
		}
		late.Close()
		works(t, open)
		open.CloseWrite()
		if _, err := io.ReadAll(open); err != nil {
			t.Error(err)
		}
		open.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Error("it took", took)
		}
		more.Close()
		<-stranger
		time.Sleep(3 * HTTPIdle)
	})
}

// TestHTTPDrainClient: a client's proxy has delivered what a program sent last when its
// Drain returns, because its process ends then. It does not wait for a server that hangs.
func TestHTTPDrainClient(t *testing.T) {
	t.Run("delivered", func(t *testing.T) { testHTTPDrainClient(t, time.Second) })
	t.Run("hangs", func(t *testing.T) { testHTTPDrainClient(t, time.Hour) })
}

func testHTTPDrainClient(t *testing.T, pause time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		d := newHTTPDrain(t)
		near := &Proxy{Stats: new(Stats), Dialed: d.client, Dial: func(context.Context) (net.Conn, error) {
			return HTTPDialer{URL: "http://192.0.2.80/", Client: &http.Client{Transport: d}}.Dial(t.Context())
		}}
		in, program := halfPipe()
		front := newPipeListener()
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- near.Serve(ctx, front) }()
		front.conns <- in
		go program.Write([]byte("?"))
		far := <-d.far
		if _, err := io.ReadFull(far, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		far.(halfEnd).CloseWrite() // the server ends first
		if _, err := io.ReadAll(program); err != nil {
			t.Fatal(err)
		}
		got := make(chan []byte, 1)
		go func() { b, _ := io.ReadAll(far); got <- b }()
		d.pause.Store(int64(pause))
		msg := noise(100_000, 1)
		if _, err := program.Write(msg); err != nil {
			t.Fatal(err)
		}
		program.Close()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		ctx, stop = context.WithTimeout(context.Background(), 20*time.Second)
		defer stop()
		begun := time.Now()
		err := near.Drain(ctx)
		if took := time.Since(begun); took > 20*time.Second {
			t.Error("it took", took)
		}
		d.down.Store(true) // of this client
		b := <-got
		if hangs := pause > time.Minute; hangs != fault.Is(err, fault.Timeout) || hangs == bytes.Equal(b, msg) {
			t.Errorf("%d of %d bytes arrived: %v", len(b), len(msg), err)
		}
		d.cancel()
		<-d.served
		time.Sleep(2 * time.Hour)
	})
}
