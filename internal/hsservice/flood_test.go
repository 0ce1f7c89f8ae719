package hsservice

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/linkspec"
)

// silent is a client whose circuits to relays never get an answer.
type silent struct{ nowhere }

func (n silent) ToDirectory(ctx context.Context, t linkspec.Target) (*circuit.Circuit, uint64, error) {
	return n.To(ctx, t, nil)
}

func (n silent) To(ctx context.Context, t linkspec.Target, _ []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	n.calls <- t
	<-ctx.Done()
	return nil, 0, context.Cause(ctx)
}

// TestSilentRendezvousPoints: clients that name rendezvous points which never answer
// do not keep other clients out until all these have timed out.
func TestSilentRendezvousPoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan linkspec.Target, 10*maxRendezvous)
		k, err := NewKey()
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Config{Key: k, Network: silent{nowhere{calls: calls}}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		p, err := newPoint(time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.subcreds = [][32]byte{{2}}
		s.mu.Unlock()
		cookie := byte(0)
		introduce := func() error {
			a := ask()
			a.cookie = cookie
			cookie++
			return s.openOne(introduction{p: p, body: a.message(t, p)})
		}
		for range maxRendezvous {
			if err := introduce(); err != nil {
				t.Fatal(err)
			}
		}
		if err := introduce(); err == nil {
			t.Error("there is no bound")
		}
		time.Sleep(rendPatience) // virtual
		for range maxRendezvous {
			if err := introduce(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := len(calls); n != 2*maxRendezvous {
			t.Errorf("%d circuits were begun", n)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := len(s.pending); n != maxRendezvous {
			t.Errorf("%d are under way", n)
		}
	})
}

// TestTargetWarnings: a client that asks again and again for a port whose target does
// not answer does not fill the log.
func TestTargetWarnings(t *testing.T) {
	s, _ := hosted(t, nowhere{})
	var log bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	now := time.Now()
	for range 100 {
		s.targetFailed(80, &net.OpError{Op: "dial", Err: errors.New("connection refused")}, now)
		s.targetFailed(81, &net.OpError{Op: "dial", Err: errors.New("connection refused")}, now)
	}
	s.targetFailed(80, &net.OpError{Op: "dial", Err: errors.New("connection refused")}, now.Add(warnPause))
	if n := bytes.Count(log.Bytes(), []byte("connection refused")); n != 3 {
		t.Errorf("%d warnings:\n%s", n, log.Bytes())
	}
}

// TestTargetWarningsWithoutAddress: the log does not say where a target is.
func TestTargetWarningsWithoutAddress(t *testing.T) {
	s, _ := hosted(t, nowhere{})
	var log bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s.targetFailed(80, exportCircuit(conn, 1, 80), time.Now())
	if text := log.String(); !strings.Contains(text, "circuit's number") || strings.Contains(text, "127.0.0.1") {
		t.Error(text)
	}
}

// TestOneClientLeavesRoom: a client that ends each stream as soon as it has begun it,
// while the target takes its time, does not get all the streams of a service.
func TestOneClientLeavesRoom(t *testing.T) {
	s, _ := hosted(t, nowhere{})
	hostile, honest := new(clientCircuit), new(clientCircuit)
	for range maxOpen {
		if s.room(hostile) {
			s.newConn(nil, hostile, 80) // END from the client does not close it
		}
	}
	if n := hostile.open.Load(); n > 1+maxOpen/4 {
		t.Errorf("one client has %d streams", n)
	}
	for i := range 100 {
		if !s.room(honest) {
			t.Fatalf("no room for another's stream %d", i+1)
		}
		s.newConn(nil, honest, 80)
	}
	for range maxOpen {
		for r := new(clientCircuit); s.room(r); {
			s.newConn(nil, r, 80)
		}
	}
	if n := s.conns.Load(); n > maxOpen {
		t.Errorf("%d streams", n)
	}
}

// TestTooManyStreamsCloseTheCircuit: with CloseCircuit, the stream after the last
// allowed one is an error, which ends the client's circuit.
func TestTooManyStreamsCloseTheCircuit(t *testing.T) {
	s, _ := hosted(t, nowhere{})
	const most = 2
	if err := s.Reload(Live{MaxStreams: most, CloseCircuit: true}); err != nil {
		t.Fatal(err)
	}
	r := new(clientCircuit)
	h := new(circuit.Hop) // of no circuit
	s.mu.Lock()
	s.clients[h.Circuit()] = r
	s.mu.Unlock()
	for range most {
		s.newConn(nil, r, 80)
	}
	begin := cell.RelayMsg{Cmd: cell.RelayBegin, Stream: 3, Data: []byte(":80\x00")}
	if err := s.HandleStream(h, begin); !fault.Is(err, fault.Resource) {
		t.Errorf("one stream more: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, h.Circuit()) // which is none that can be closed
}
