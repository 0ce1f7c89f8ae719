package rpcserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/program"
	"github.com/chivenet/chive/program/programtest"
)

// serve starts a server with one method that waits, and one that does not. began hears of
// each call that waits.
func serve(t *testing.T, wait <-chan struct{}, began chan<- struct{}) (addr string) {
	t.Helper()
	programtest.NoLeaks(t)
	l, err := program.ListenLoopback("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Methods: map[string]Method{
		"wait": func(ctx context.Context, _ json.RawMessage) (Result, error) {
			began <- struct{}{}
			select {
			case <-wait:
			case <-ctx.Done():
			}
			return Result{Value: "waited"}, nil
		},
		"now": func(context.Context, json.RawMessage) (Result, error) { return Result{Value: "now"}, nil },
	}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func call(addr, method string, pad int) (int, string, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":[%q]}`, method, strings.Repeat("x", pad))
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	c := http.Client{Transport: tr, Timeout: 30 * time.Second}
	resp, err := c.Post("http://"+addr, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// TestSlowClients: clients that connect and say nothing, that send a header or a body
// slowly, or that do not read their answers, hold up nobody else.
func TestSlowClients(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for name, begin := range map[string]string{
		"nothing":            "",
		"a part of a header": head,
		"a part of a body":   head + "Content-Length: 100\r\n\r\n{",
		"a large body":       head + "Content-Length: 1000000\r\n\r\n" + strings.Repeat(" ", maxSmall+1),
		"no reading":         head + "Content-Length: 46\r\n\r\n" + `{"jsonrpc":"2.0","id":1,"method":"now"}       `,
	} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, nil, nil)
			for range 2 * program.MaxHTTPConns {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				// The server may have closed it for a newer one.
				_, _ = io.WriteString(c, begin)
			}
			if code, got, err := call(addr, "now", 0); err != nil || code != http.StatusOK || !strings.Contains(got, `"now"`) {
				t.Errorf("another client: %d %s %v", code, got, err)
			}
		})
	}
}

// TestBusy: calls beyond the slots and the queue are refused, and none is lost.
func TestBusy(t *testing.T) {
	wait := make(chan struct{})
	addr := serve(t, wait, make(chan struct{}, program.MaxHTTPConns))
	var all sync.WaitGroup
	codes := make(chan int, program.MaxHTTPConns)
	const n = maxCalls + maxQueue + 5
	for range n {
		all.Go(func() {
			code, _, err := call(addr, "wait", 0)
			if err != nil {
				t.Error(err)
			}
			codes <- code
		})
	}
	for range 5 {
		if code := <-codes; code != http.StatusServiceUnavailable {
			t.Errorf("too many: %d", code)
		}
	}
	close(wait)
	all.Wait()
	close(codes)
	for code := range codes {
		if code != http.StatusOK {
			t.Errorf("a call: %d", code)
		}
	}
}

// TestQueueTime: nobody waits for ever.
func TestQueueTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		if err := s.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := s.take(t.Context()); !errors.Is(err, errBusy) || time.Since(began) != queueTime {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		s.give()
		if err := s.take(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestBusyStays: a connection with a call makes no room for others.
func TestBusyStays(t *testing.T) {
	wait, began := make(chan struct{}), make(chan struct{}, 1)
	addr := serve(t, wait, began)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const body = `{"jsonrpc":"2.0","id":1,"method":"wait"}`
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	<-began
	for range 2 * program.MaxHTTPConns {
		idle, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer idle.Close()
	}
	if code, _, err := call(addr, "now", maxSmall); err != nil || code != http.StatusOK {
		t.Errorf("another client: %d %v", code, err)
	}
	close(wait)
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Errorf("%q, %v", line, err)
	}
}
