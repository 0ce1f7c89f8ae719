package measure

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/target"
)

// TestLatency: percentiles by nearest rank, of the numbers 1 to 200.
func TestLatency(t *testing.T) {
	var d []time.Duration
	for i := 200; i > 0; i-- {
		d = append(d, time.Duration(i)*time.Millisecond)
	}
	if got, want := *NewLatency(d), (Latency{200, 1, 100, 190, 198, 200}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := *NewLatency(d[:1]), (Latency{1, 200, 200, 200, 200, 200}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestRunDirect measures plain TCP: every number is there and can be true.
func TestRunDirect(t *testing.T) {
	tg, err := target.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := Subject{Name: "direct", Dial: new(net.Dialer).DialContext}
	if runtime.GOOS == "linux" {
		s.Processes = []Process{{"self", os.Getpid()}}
	}
	p := Plan{Streams: []int{1, 0, 3}, Bytes: 3 << 20, Pings: 5, Connects: 9, Apart: 2, Crowd: 4, Rounds: 2, Circuits: []int{2}, Loaded: 2, LoadedPings: 20}
	var said []string
	p.Progress = func(line string) { said = append(said, line) }
	if _, err := Run(ctx, s, tg, p); !fault.Is(err, fault.Config) {
		t.Errorf("no circuits to tell apart: %v", err)
	}
	s.Circuit = func(int) Dial { return s.Dial }
	r, err := Run(ctx, s, tg, p)
	if err != nil {
		t.Fatal(err)
	}
	if len(said) != 12 || said[10] != "direct: 2 circuits up" {
		t.Errorf("progress: %q", said)
	}
	if l := r.Loaded; l.Circuits != 2 || l.Ping.Count != 20 || l.MBps <= 0 {
		t.Errorf("%+v", l)
	}
	for what, c := range map[string]struct {
		*Connect
		n int
	}{"alone": {r.Alone(), 9}, "apart": {r.Apart, 2}, "a crowd": {r.Crowd, 8}} {
		if c.Connect == nil || c.Answer.Count != c.n || c.FirstByte.Count != c.n || c.FirstByte.Median <= c.Answer.Min || len(s.Processes) > 0 && c.CPU <= 0 {
			t.Errorf("%s: %+v", what, c.Connect)
		}
	}
	if len(r.Throughput) != 6 || r.Ping.Count != 5 || r.Connect.Count != 9 {
		t.Fatalf("%+v", r)
	}
	for _, x := range r.Throughput {
		if x.Bytes != 3<<20 || len(x.Memory) != len(s.Processes) || x.MBps <= 0 || len(x.CPU) != len(s.Processes) {
			t.Errorf("%+v", x)
		}
	}
	if runtime.GOOS == "linux" && (r.Memory[0].RSS < 1 || r.Throughput[0].CPU[0].MicrosPerCell <= 0) {
		t.Errorf("%+v", r)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(&back, r) {
		t.Errorf("JSON: %v\n%+v\n%+v", err, back, r)
	}
}

func TestRunFails(t *testing.T) {
	tg, err := target.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	broken := errors.New("no way")
	n := 0
	s := Subject{Name: "broken", Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if n++; n > 2 {
			return nil, broken
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	if r, err := Run(t.Context(), s, tg, Plan{Connects: 5}); !errors.Is(err, broken) {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s.Dial = func(context.Context, string, string) (net.Conn, error) { // no answer ever comes
		a, b := net.Pipe()
		t.Cleanup(func() { b.Close() })
		return a, nil
	}
	if r, err := Run(ctx, s, tg, Plan{Streams: []int{2}, Bytes: 1000}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestTable(t *testing.T) {
	a := &Report{Name: "a", Ping: &Latency{Min: 1, Median: 2, P95: 3, P99: 4},
		Throughput: []Throughput{{Direction: "down", Streams: 10, MBps: 12.34, CPU: []CPU{{"client", 1, 4.567}},
			Memory: []Memory{{"client", 3, 4}, {"guard", 5, 6}}}, {Direction: "up", Streams: 1, Circuits: 1, MBps: 5}},
		Loaded: &Loaded{10, 40, Latency{Min: 1, Median: 2, P95: 3, P99: 4}}}
	b := &Report{Name: "b", Bootstrap: &Bootstrap{2, 1.5}, Memory: []Memory{{"client", 13, 20}},
		Build: NewBuild([][]time.Duration{{time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond}})}
	var out strings.Builder
	if err := WriteTable(&out, a, b); err != nil {
		t.Fatal(err)
	}
	const want = `                                                                  a                          b
10 streams down, MB/s (CPU us per cell)                           12.3 (client 4.57)         -
1 circuit up, MB/s (CPU us per cell)                              5.0                        -
round trip 64 B, ms: min / median / p95 / p99                     1.00 / 2.00 / 3.00 / 4.00  -
round trip 64 B beside 10 circuits, ms: min / median / p95 / p99  1.00 / 2.00 / 3.00 / 4.00  -
their throughput, MB/s                                            40.0                       -
3-hop build, median ms (hops)                                     -                          6.00 (1.00/2.00/3.00)
bootstrap, cold / warm, s                                         -                          2.00 / 1.50
RSS with the most streams open, MB                                client 3.0, guard 5.0      -
RSS (peak), MB                                                    -                          13.0 (20.0)
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
