package chive

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestHTTPClient: an HTTP client gets all its connections from the client,
// whatever the environment says.
func TestHTTPClient(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	c := closedClient(t)
	for _, url := range []string{"http://example.com/", "https://example.com/"} {
		resp, err := c.HTTPClient().Get(url)
		if err == nil {
			resp.Body.Close()
		}
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, not the client's own error", url, err)
		}
	}
	if tr := c.HTTPClient().Transport.(*httpTransport).pool(httpKey{}); tr.Proxy != nil || tr.DialTLSContext != nil {
		t.Error("it has other ways to the network")
	}
}

// silent returns a network whose authority does not answer.
func silent(t *testing.T) *Network {
	t.Helper()
	nw, err := ParseNetwork([]byte("name = \"one\"\n[[authority]]\nnickname = \"a\"\nv3ident = \"0101010101010101010101010101010101010101\"\nrsa = \"0202020202020202020202020202020202020202\"\norport = [\"127.0.0.1:1\"]\n[testing]\nallow_private_addresses = true\n"))
	if err != nil {
		t.Fatal(err)
	}
	return nw
}

// closedClient returns a client that was closed, twice.
func closedClient(t *testing.T) *Client {
	t.Helper()
	c, err := New(Config{Network: silent(t), DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	return c
}

func TestClientLife(t *testing.T) {
	cfg := Config{Network: silent(t), DataDir: t.TempDir()}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("two clients with one directory: %v", err)
	}
	events, _ := c.Events()
	if b, ok := (<-events).(*BootstrapEvent); !ok || b.Ready || b.Stage == "" {
		t.Errorf("the first event is %+v", b)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := c.Wait(ctx); !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait: %v", err)
	}
	if _, err := c.DialContext(ctx, "udp", "example.com:53"); !errors.Is(err, ErrConfig) {
		t.Errorf("a datagram: %v", err)
	}
	if _, err := c.DialContext(ctx, "tcp", "192.168.0.1:80"); errors.Is(err, ErrPolicy) {
		t.Errorf("a private network's own address: %v", err)
	}
	cfg.ExitNodes, cfg.CGO, cfg.MaxMemory = []string{"moria1"}, SwitchOff, 1<<30
	if err := c.Reload(cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "CGO, MaxMemory") {
		t.Errorf("Reload: %v", err)
	}
	cfg = c.Config()
	cfg.ExitNodes = []string{"moria1"}
	if err := c.Reload(cfg); err != nil || len(c.Config().ExitNodes) != 1 {
		t.Errorf("Reload: %v", err)
	}
	select {
	case <-c.Done():
		t.Errorf("it ended by itself: %v", c.Err())
	default:
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	<-c.Done()
	if err := c.Err(); err != nil {
		t.Errorf("it was closed, and says %v", err)
	}
	for range events { // Close ends the subscription
	}
	if _, err := c.Dial("tcp", "example.com:80"); !errors.Is(err, ErrClosed) {
		t.Errorf("a stream of a closed client: %v", err)
	}
	if err := c.Reload(cfg); !errors.Is(err, ErrClosed) {
		t.Errorf("Reload of a closed client: %v", err)
	}
	again, err := New(cfg) // the directory is free
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
