package fte

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// early gives requests right to a handler. The client has the answer a while before the
// handler returns, as when an answer arrives before the server's goroutine runs again.
type early struct{ http.Handler }

func (h early) RoundTrip(r *http.Request) (*http.Response, error) {
	w := earlyWriter{httptest.NewRecorder(), make(chan *http.Response, 1)}
	in := r.Clone(r.Context())
	in.RemoteAddr = honestHTTP
	go func() {
		h.ServeHTTP(w, in)
		select {
		case w.answer <- w.Result():
		default: // it was flushed
		}
	}()
	return <-w.answer, nil
}

type earlyWriter struct {
	*httptest.ResponseRecorder
	answer chan *http.Response
}

func (w earlyWriter) Flush() {
	w.answer <- w.Result()
	time.Sleep(time.Second)
}

// TestHTTPNextRequest: a client that uses a connection for each request, as through some
// proxies, may ask again before the server is done with the request before.
func TestHTTPNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := chivePair(t, "hex", Protocol{})
		hs := &HTTPServer{Transport: server}
		defer time.Sleep(3 * HTTPIdle) // what timers are left
		defer hs.Close()
		go echo(hs)
		raw, err := HTTPDialer{URL: "http://192.0.2.80/", Client: &http.Client{Transport: early{hs}}}.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := client.Wrap(raw)
		defer c.Close()
		for range 3 {
			works(t, c)
		}
	})
}
