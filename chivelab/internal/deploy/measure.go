package deploy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/chivenet/chive/chivelab/internal/benchcirc"
	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/netdir"
)

// Measurement is what the client does.
type Measurement struct {
	Network    *netdir.Network
	Path       []string // nicknames, the guard first
	Target     netip.AddrPort
	Circuits   int // with each handshake
	Handshakes []string
	Seed       uint64 // of the order of handshakes
	Version    string
	Dir        string // of the results
	Registry   *metrics.Registry
}

// Times of a measurement.
const (
	directoryPause = 500 * time.Millisecond // between two questions for a directory that is not there yet
	firstPatience  = 3 * time.Second        // for an answer: one that comes too early has no directory, and asks again late
	lastPatience   = time.Minute
	circuitTime    = 2 * time.Minute // of one circuit
	warmUp         = 3               // circuits of each handshake that are not counted: they open the links
)

// Run waits for the directory, which is there when its first vote is over, builds circuits with the handshakes in turns,
// has the target send back a byte through each of them, and writes samples and report.
func (m *Measurement) Run(ctx context.Context) (*Report, error) {
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	path, err := m.await(ctx)
	if err != nil {
		return nil, err
	}
	builders := map[string]*benchcirc.Builder{}
	for _, h := range m.Handshakes {
		b, err := benchcirc.NewBuilder(ctx, m.Network, path, h, "", dial)
		if err != nil {
			return nil, fault.New(fault.KindOf(err), "%s: %w", h, err)
		}
		defer b.Close()
		builders[h] = b
		for range warmUp {
			_ = m.circuit(ctx, b, 0, h) // one that fails is not counted, and the next ones tell
		}
	}
	samples, err := createSamples(filepath.Join(m.Dir, SamplesName), len(path))
	if err != nil {
		return nil, err
	}
	r := newReport(m)
	luck := rand.New(rand.NewPCG(m.Seed, 1))
	for n := 1; n <= m.Circuits; n++ {
		for _, i := range luck.Perm(len(m.Handshakes)) {
			h := m.Handshakes[i]
			s := m.circuit(ctx, builders[h], n, h)
			if ctx.Err() != nil {
				return nil, errors.Join(fault.Ended(ctx, "the measurement: %w", context.Cause(ctx)), samples.close())
			}
			m.count(&s)
			r.add(s)
			if err := samples.add(&s); err != nil {
				return nil, errors.Join(err, samples.close())
			}
		}
	}
	if err := samples.close(); err != nil {
		return nil, err
	}
	r.finish()
	return r, atomicfile.WriteJSON(filepath.Join(m.Dir, ReportName), r, atomicfile.Report)
}

// await asks for the directory until all relays of the path are in it, or ctx ends.
func (m *Measurement) await(ctx context.Context) ([]ident.RSAID, error) {
	for patience := firstPatience; ; patience = min(2*patience, lastPatience) {
		try, cancel := context.WithTimeout(ctx, patience)
		path, err := benchcirc.Named(try, m.Network, m.Path, dial)
		cancel()
		if err == nil {
			return path, nil
		}
		select {
		case <-ctx.Done():
			return nil, fault.Ended(ctx, "no directory with the path: %w", err)
		case <-time.After(directoryPause):
		}
	}
}

func dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", to.String())
	return c, fault.Wrap(fault.Network, err)
}

// circuit builds one circuit, and sends a byte through it and back.
func (m *Measurement) circuit(ctx context.Context, b *benchcirc.Builder, n int, handshake string) Sample {
	ctx, cancel := context.WithTimeout(ctx, circuitTime)
	defer cancel()
	s := Sample{Circuit: n, Handshake: handshake}
	circ, built, err := b.Open(ctx)
	if err != nil {
		s.Failed = err.Error()
		return s
	}
	defer b.Over(circ)
	s.Total = built.Total / 1000
	for _, h := range built.Hops {
		s.Hops = append(s.Hops, h.Wall/1000)
	}
	begin, trip, err := experiment.Echo(ctx, circ, m.Target)
	if err != nil {
		s.Failed = "the target: " + err.Error()
		return s
	}
	s.Begin, s.Trip = float64(begin)/1e6, float64(trip)/1e6
	return s
}

// count tells the monitor of a circuit.
func (m *Measurement) count(s *Sample) {
	result := "built"
	if s.Failed != "" {
		result = "failed"
	}
	m.Registry.Counter(fmt.Sprintf("deploy_circuits_total{handshake=%q,result=%q}", s.Handshake, result), "circuits of the measurement").Inc()
	if s.Failed == "" {
		m.Registry.Histogram(fmt.Sprintf("deploy_circuit_seconds{handshake=%q}", s.Handshake), "time to build a circuit").Observe(time.Duration(s.Total * 1e6))
	}
}
