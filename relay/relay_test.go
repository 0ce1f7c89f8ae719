package relay_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/ports"
	"github.com/chivenet/chive/relay"
)

// silent returns a network whose authority does not answer.
func silent(t *testing.T) *chive.Network {
	t.Helper()
	nw, err := chive.ParseNetwork([]byte("name = \"one\"\n[[authority]]\nnickname = \"a\"\nv3ident = \"0101010101010101010101010101010101010101\"\nrsa = \"0202020202020202020202020202020202020202\"\norport = [\"127.0.0.1:1\"]\n[testing]\nallow_private_addresses = true\n"))
	if err != nil {
		t.Fatal(err)
	}
	return nw
}

// TestLife: New opens the port, Close and Shutdown give everything back, and the
// next relay in the directory is the same one.
func TestLife(t *testing.T) {
	var lease ports.Leases // no other program opens the port after it is closed
	defer lease.Release()
	loopback := netip.MustParseAddr("127.0.0.1")
	port, err := lease.Take(loopback)
	if err != nil {
		t.Fatal(err)
	}
	cfg := relay.Config{Network: silent(t), DataDir: t.TempDir(), Nickname: "r", ORPort: []string{netip.AddrPortFrom(loopback, port).String()}, AssumeReachable: true, ShutdownWait: time.Hour}
	fingerprint := ""
	for name, end := range map[string]func(*relay.Relay) error{
		"Close":    (*relay.Relay).Close,
		"Shutdown": func(r *relay.Relay) error { return r.Shutdown(t.Context()) }, // no circuit is open: it is over at once
		"Shutdown that may not wait": func(r *relay.Relay) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return r.Shutdown(ctx)
		},
	} {
		r, err := relay.New(cfg)
		if err != nil {
			t.Fatalf("before %s: %v", name, err)
		}
		if _, err := relay.New(cfg); !errors.Is(err, relay.ErrConfig) || !errors.Is(err, chive.ErrConfig) {
			t.Errorf("two relays in one directory: %v", err)
		}
		fp, _ := r.Fingerprint()
		if fingerprint != "" && fp != fingerprint {
			t.Errorf("%s and %s are one relay's fingerprints", fp, fingerprint)
		}
		fingerprint = fp
		c, err := net.Dial("tcp", r.Addrs()[0].String())
		if err != nil {
			t.Errorf("the ORPort is not open: %v", err)
		} else {
			c.Close()
		}
		if s := r.Status(); s.Fingerprint != fp || s.Draining {
			t.Errorf("%+v", s)
		}
		select {
		case <-r.Done():
			t.Errorf("it ended by itself: %v", r.Err())
		default:
		}
		if err := end(r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		<-r.Done()
		if err := r.Err(); err != nil {
			t.Errorf("%s: the relay was told to end, and says %v", name, err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("Close after %s: %v", name, err)
		}
		if c, err := net.Dial("tcp", r.Addrs()[0].String()); err == nil {
			c.Close()
			t.Errorf("the ORPort is open after %s", name)
		}
	}
}

func TestReload(t *testing.T) {
	cfg := relay.Config{Network: silent(t), DataDir: t.TempDir(), Nickname: "r", ORPort: []string{"127.0.0.1:0"}, AssumeReachable: true}
	r, err := relay.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cfg.ORPort[0] = "127.0.0.1:1"
	if err := r.Reload(cfg); !errors.Is(err, relay.ErrConfig) || !strings.Contains(err.Error(), "ORPort") {
		t.Errorf("a list that was changed in place: %v", err)
	}
	next := r.Config()
	next.Contact, next.BandwidthRate = "me", 1_000_000
	if err := r.Reload(next); err != nil || r.Config().Contact != "me" || r.Status().Rate != 1_000_000 {
		t.Errorf("%v, %+v", err, r.Config())
	}
	next.Nickname, next.ORPort, next.Contact = "other", []string{"127.0.0.1:1"}, "you"
	if err := r.Reload(next); !errors.Is(err, relay.ErrConfig) || !strings.Contains(err.Error(), "Nickname, ORPort") || r.Config().Contact != "me" {
		t.Errorf("%v, %+v", err, r.Config())
	}
	// A bridge's transports are the processes that New started, however often others are asked for.
	for _, line := range []string{"a exec /bin/true", "b exec /bin/true"} {
		next := r.Config()
		next.Bridge, next.ServerTransportPlugins, next.Contact = true, []string{line}, "you"
		if err := r.Reload(next); !errors.Is(err, relay.ErrConfig) || !strings.Contains(err.Error(), "ServerTransportPlugins") || r.Config().Contact != "me" || r.Config().ServerTransportPlugins != nil {
			t.Errorf("%v, %+v", err, r.Config())
		}
	}
	var b strings.Builder
	if err := r.WriteMetrics(&b); err != nil || !strings.Contains(b.String(), "chive_relay") {
		t.Errorf("%v: %.200s", err, &b)
	}
	if err := r.WriteMetricsJSON(io.Discard); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Reload(r.Config()); !errors.Is(err, relay.ErrClosed) {
		t.Errorf("Reload after Close, when another relay may use the directory: %v", err)
	}
}
