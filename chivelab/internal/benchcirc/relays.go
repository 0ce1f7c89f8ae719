package benchcirc

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/netdir"
)

// relay is one of the measurement's own relays, as the measuring process sees it.
type relay struct {
	description
	in     io.WriteCloser
	enc    *json.Encoder
	dec    *json.Decoder
	ended  chan error
	kill   func()
	inside bool // it runs in this process
}

const relayStop = 10 * time.Second

// startRelays starts n relays and a directory of them, which the first serves.
func startRelays(ctx context.Context, n int, command []string) ([]*relay, *netdir.Network, error) {
	var all []*relay
	var descs []description
	fail := func(err error) ([]*relay, *netdir.Network, error) {
		stopRelays(all)
		return nil, nil, err
	}
	for range n {
		r, err := startRelay(ctx, command)
		if err != nil {
			return fail(err)
		}
		all = append(all, r)
		descs = append(descs, r.description)
	}
	docs, network, err := makeDirectory(descs)
	if err != nil {
		return fail(err)
	}
	// Use one cache: others would only differ in whether their link is open
	// already.
	network.Fallbacks = network.Fallbacks[:1]
	if _, err := all[0].ask(order{Documents: docs}); err != nil {
		return fail(err)
	}
	return all, network, nil
}

func startRelay(ctx context.Context, command []string) (*relay, error) {
	r := &relay{ended: make(chan error, 1), kill: func() {}}
	var out io.ReadCloser
	if len(command) == 0 {
		r.inside = true
		in, toIn := io.Pipe()
		fromOut, toOut := io.Pipe()
		go func() {
			err := ServeRelay(ctx, in, toOut, os.Getpid())
			toOut.Close()
			r.ended <- err
		}()
		r.in, out = toIn, fromOut
	} else {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stderr = os.Stderr
		var err error
		if r.in, err = cmd.StdinPipe(); err == nil {
			out, err = cmd.StdoutPipe()
		}
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return nil, fault.New(fault.Local, "start a relay: %w", err)
		}
		r.kill = func() { _ = cmd.Process.Kill() } // it may be gone already
		go func() { r.ended <- cmd.Wait() }()
	}
	r.enc, r.dec = json.NewEncoder(r.in), json.NewDecoder(out)
	if err := r.dec.Decode(&r.description); err != nil {
		r.stop()
		return nil, fault.New(fault.Local, "start a relay: it does not say who it is: %w", err)
	}
	return r, nil
}

// ask sends an order and returns the counters in the answer.
func (r *relay) ask(o order) (counters, error) {
	var c counters
	err := r.enc.Encode(o)
	if err == nil {
		err = r.dec.Decode(&c)
	}
	if err != nil {
		return c, fault.New(fault.Local, "a relay of the measurement does not answer: %w", err)
	}
	return c, nil
}

// cpu returns the processor time that the relay's process has used.
func (r *relay) cpu() (time.Duration, bool) {
	if r.inside {
		return 0, false
	}
	d, err := proc.CPU(r.PID)
	return d, err == nil
}

// stop ends the relay by closing its input.
func (r *relay) stop() {
	r.in.Close()
	t := time.NewTimer(relayStop)
	defer t.Stop()
	select {
	case <-r.ended:
	case <-t.C:
		r.kill()
		<-r.ended
	}
}

func stopRelays(all []*relay) {
	for _, r := range all {
		r.in.Close() // first close all, because stop waits for each
	}
	for _, r := range all {
		r.stop()
	}
}
