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

	"github.com/chivenet/chive/lab/target"
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
	r, err := Run(ctx, s, tg, Plan{Streams: []int{1, 3}, Bytes: 3 << 20, Pings: 5, Connects: 3, Rounds: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Throughput) != 4 || r.Ping.Count != 5 || r.Connect.Count != 3 {
		t.Fatalf("%+v", r)
	}
	for _, x := range r.Throughput {
		if x.Bytes != 3<<20 || x.MBps <= 0 || len(x.CPU) != len(s.Processes) {
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
	s.Dial = func(context.Context, string, string) (net.Conn, error) { // nobody ever answers
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
		Throughput: []Throughput{{Direction: "down", Streams: 10, MBps: 12.34, CPU: []CPU{{"client", 1, 4.567}}}}}
	b := &Report{Name: "b", Bootstrap: &Bootstrap{2, 1.5}, Memory: []Memory{{"client", 13, 20}},
		Build: NewBuild([][]time.Duration{{time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond}})}
	var out strings.Builder
	if err := WriteTable(&out, a, b); err != nil {
		t.Fatal(err)
	}
	const want = `                                               a                          b
10 streams down, MB/s (CPU us per cell)        12.3 (client 4.57)         -
round trip 64 B, ms: min / median / p95 / p99  1.00 / 2.00 / 3.00 / 4.00  -
3-hop build, median ms (hops)                  -                          6.00 (1.00/2.00/3.00)
bootstrap, cold / warm, s                      -                          2.00 / 1.50
RSS (peak), MB                                 -                          13.0 (20.0)
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
