// Package measure measures a client over any way to open a connection: a SOCKS
// proxy, or a function of the shape of net.Dialer's DialContext. It takes the
// same numbers in the same way for every client, so that they can be compared.
package measure

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/lab/target"
)

// Dial opens a connection to host:port, as net.Dialer.DialContext does; the
// network is "tcp".
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Subject is a client to measure.
type Subject struct {
	Name string
	Dial Dial
	// Circuit returns a way to open connections over the i-th of the client's
	// circuits, counted from 0; nil: the client has no way to choose a circuit.
	Circuit func(i int) Dial
	// Processes are the processes whose CPU time and memory are reported, with
	// their names in the report; the client's own process comes first. It may be
	// empty.
	Processes []Process
}

// Process names a process.
type Process struct {
	Name string
	PID  int
}

// Plan says what to measure. A field of zero leaves a measurement out, and so
// does a 0 in a list.
type Plan struct {
	Streams  []int // a throughput measurement each way for each number of streams
	Bytes    int64 // moved by each throughput measurement, over all its streams
	Pings    int   // 64-byte round trips
	Connects int   // connections opened, one after the other
	// Apart is how many connections are opened one after the other, each on a circuit of
	// its own: it needs a subject with circuits. Before each is ApartPause, in which a client
	// builds the next circuit ahead.
	Apart int
	// Crowd is how many connections are opened at the same time, so often that there are
	// as many as Connects says.
	Crowd int
	// Pause is the time before each of the connections: then a client can build the
	// circuits ahead of which it needs one for each connection.
	Pause  time.Duration
	Rounds int // every throughput is measured this many times, and the median is reported; 0 means 1

	// What needs a subject with circuits: a throughput measurement each way for
	// each number of circuits, with one stream on each, and round trips on one
	// circuit (LoadedPings) while Loaded others are downloading.
	Circuits    []int
	Loaded      int
	LoadedPings int

	// Progress is called with the present measurement; may be nil.
	Progress func(string)
}

// DefaultPlan returns the plan of the project's comparisons.
func DefaultPlan() Plan {
	return Plan{Streams: []int{1, 10, 50, 100}, Bytes: 50 << 20, Pings: 1000, Connects: 100, Rounds: 7}
}

// Report has all measurements of one subject.
type Report struct {
	Name       string       `json:"name"`
	Throughput []Throughput `json:"throughput,omitempty"`
	Ping       *Latency     `json:"ping_64_bytes,omitempty"`
	Connect    *Latency     `json:"connect,omitempty"`    // until the proxy has answered
	FirstByte  *Latency     `json:"first_byte,omitempty"` // of the same connections: see Connect
	ConnectCPU float64      `json:"connect_cpu_us,omitempty"`
	Apart      *Connect     `json:"connect_apart,omitempty"`
	Crowd      *Connect     `json:"connect_crowd,omitempty"`
	Loaded     *Loaded      `json:"loaded,omitempty"`
	Build      *Build       `json:"circuit_build,omitempty"`
	Bootstrap  *Bootstrap   `json:"bootstrap,omitempty"`
	Idle       []Memory     `json:"idle_memory,omitempty"` // before the first transfer
	Memory     []Memory     `json:"memory,omitempty"`
}

// Throughput is the median run of one kind of transfer.
type Throughput struct {
	Direction string  `json:"direction"` // "down" or "up", as the client sees it
	Streams   int     `json:"streams"`
	Circuits  int     `json:"circuits,omitempty"` // a stream on each; 0: all streams where the client puts them
	Bytes     int64   `json:"bytes"`
	Seconds   float64 `json:"seconds"`
	MBps      float64 `json:"mb_per_s"` // 10^6 bytes of application data per second
	CPU       []CPU   `json:"cpu,omitempty"`
	// Memory is measured after the last byte has arrived, while all streams are
	// still open.
	Memory []Memory `json:"memory,omitempty"`
}

// CPU is what a process used during a transfer.
type CPU struct {
	Process       string  `json:"process"`
	Seconds       float64 `json:"seconds"`
	MicrosPerCell float64 `json:"us_per_cell"` // per CellData bytes of application data
}

// CellData is how many bytes of a stream one relay cell carries (tor-spec, "relay
// cells": 498 in version 0; cells of version 1 carry 488 but count like version
// 0, so that the format that carries less gets the higher cost).
const CellData = 498

// Memory is a process's resident memory, and its peak so far.
type Memory struct {
	Process string  `json:"process"`
	RSS     float64 `json:"rss_mb"` // 10^6 bytes
	Peak    float64 `json:"peak_mb"`
}

// Connect is how long connections take, each from the start of the connection to the proxy: until
// the proxy has answered, and until the far end's answer to a first byte, which is written then.
type Connect struct {
	Answer    Latency `json:"answer"`
	FirstByte Latency `json:"first_byte"`
	// CPU is the client's processor time for each connection, from its opening to its end, in
	// microseconds; 0: not known.
	CPU float64 `json:"cpu_us,omitempty"`
}

// Latency is a distribution of durations, in milliseconds.
type Latency struct {
	Count  int     `json:"count"`
	Min    float64 `json:"min_ms"`
	Median float64 `json:"median_ms"`
	P95    float64 `json:"p95_ms"`
	P99    float64 `json:"p99_ms"`
	Max    float64 `json:"max_ms"`
}

// Run measures one subject against the target, in the plan's order: first
// latencies, while the client is idle, and memory last.
func Run(ctx context.Context, s Subject, tg *target.Target, p Plan) (*Report, error) {
	r, err := Together(ctx, tg, p, s)
	return r[0], err
}

// Together measures subjects that all run at the same time, in turns. Only the
// measured subject works, and turns are so short that other load of the machine
// affects all subjects equally. The reports come in the subjects' order.
func Together(ctx context.Context, tg *target.Target, p Plan, subjects ...Subject) ([]*Report, error) {
	t := &turns{Plan: &p, target: tg, subjects: subjects}
	for _, s := range subjects {
		t.reports = append(t.reports, &Report{Name: s.Name})
	}
	return t.reports, t.run(ctx)
}

// transfers lists the throughput measurements of a plan.
func (p *Plan) transfers() []Throughput {
	var out []Throughput
	for _, n := range p.Streams {
		out = append(out, Throughput{Streams: n, Direction: "down"}, Throughput{Streams: n, Direction: "up"})
	}
	for _, n := range p.Circuits {
		out = append(out, Throughput{Streams: n, Circuits: n, Direction: "down"}, Throughput{Streams: n, Circuits: n, Direction: "up"})
	}
	return slices.DeleteFunc(out, func(t Throughput) bool { return t.Streams < 1 })
}

// String says what kind of transfer it is.
func (t Throughput) String() string {
	n, noun := t.Streams, "stream"
	if t.Circuits > 0 {
		n, noun = t.Circuits, "circuit"
	}
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s %s", n, noun, t.Direction)
}

func memory(ps []Process) ([]Memory, error) {
	us, err := usages(ps)
	return memoryOf(ps, us), err
}

func memoryOf(ps []Process, us []proc.Usage) []Memory {
	var out []Memory
	for i, u := range us {
		out = append(out, Memory{ps[i].Name, float64(u.RSS) / 1e6, float64(u.PeakRSS) / 1e6})
	}
	return out
}

// millis is a duration in milliseconds.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
