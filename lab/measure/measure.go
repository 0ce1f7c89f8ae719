// Package measure measures a client over any way to open a connection: a SOCKS
// proxy, or a function of the shape of net.Dialer's DialContext. The same
// numbers, taken the same way, for every client, so that they can stand side
// by side.
package measure

import (
	"context"
	"net"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/lab/target"
)

// Dial opens a connection to host:port, as net.Dialer.DialContext does; the
// network is "tcp".
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Subject is a client to measure.
type Subject struct {
	Name string
	Dial Dial
	// Processes are the processes whose CPU time and memory are told, by the
	// names under which they are told; the client's own first. May be empty.
	Processes []Process
}

// Process names a process.
type Process struct {
	Name string
	PID  int
}

// Plan says what to measure. The zero value of a field leaves it out.
type Plan struct {
	Streams  []int // a throughput measurement each way for each number of streams
	Bytes    int64 // moved by each throughput measurement, over all its streams
	Pings    int   // 64-byte round trips
	Connects int   // connections opened, one after the other
	Rounds   int   // every throughput is measured this often, the median told; 0 is 1
}

// DefaultPlan is what the project's comparisons use.
func DefaultPlan() Plan {
	return Plan{Streams: []int{1, 10, 50, 100}, Bytes: 100 << 20, Pings: 500, Connects: 100, Rounds: 3}
}

// Report is everything that was measured of one subject.
type Report struct {
	Name       string       `json:"name"`
	Throughput []Throughput `json:"throughput,omitempty"`
	Ping       *Latency     `json:"ping_64_bytes,omitempty"`
	Connect    *Latency     `json:"connect,omitempty"`
	Build      *Build       `json:"circuit_build,omitempty"`
	Bootstrap  *Bootstrap   `json:"bootstrap,omitempty"`
	Idle       []Memory     `json:"idle_memory,omitempty"` // before the first transfer
	Memory     []Memory     `json:"memory,omitempty"`
}

// Throughput is the median run of one kind of transfer.
type Throughput struct {
	Direction string  `json:"direction"` // "down" or "up", as the client sees it
	Streams   int     `json:"streams"`
	Bytes     int64   `json:"bytes"`
	Seconds   float64 `json:"seconds"`
	MBps      float64 `json:"mb_per_s"` // 10^6 bytes of application data a second
	CPU       []CPU   `json:"cpu,omitempty"`
}

// CPU is what a process used during a transfer.
type CPU struct {
	Process       string  `json:"process"`
	Seconds       float64 `json:"seconds"`
	MicrosPerCell float64 `json:"us_per_cell"` // per CellData bytes of application data
}

// CellData is how many bytes of a stream one relay cell carries (tor-spec,
// "relay cells": 498 in version 0; the 488 of version 1 are counted as if they
// were as many, so that a format that carries less pays for it).
const CellData = 498

// Memory is a process's resident memory at the end, and at its peak.
type Memory struct {
	Process string  `json:"process"`
	RSS     float64 `json:"rss_mb"` // 10^6 bytes
	Peak    float64 `json:"peak_mb"`
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

// Run measures one subject against the target, in the plan's order: latencies
// first, on a quiet client, and memory last.
func Run(ctx context.Context, s Subject, tg *target.Target, p Plan) (*Report, error) {
	r := &Report{Name: s.Name}
	var err error
	if r.Idle, err = memory(s.Processes); err != nil {
		return nil, err
	}
	if p.Connects > 0 {
		if r.Connect, err = connects(ctx, s.Dial, tg.Addr(target.Echo), p.Connects); err != nil {
			return nil, fault.New(fault.KindOf(err), "%s: connect time: %w", s.Name, err)
		}
	}
	if p.Pings > 0 {
		if r.Ping, err = pings(ctx, s.Dial, tg.Addr(target.Echo), p.Pings); err != nil {
			return nil, fault.New(fault.KindOf(err), "%s: round trips: %w", s.Name, err)
		}
	}
	for _, streams := range p.Streams {
		for _, direction := range []string{"down", "up"} {
			t, err := transfers(ctx, s, tg, direction, streams, p.Bytes, max(1, p.Rounds))
			if err != nil {
				return nil, fault.New(fault.KindOf(err), "%s: %d streams %s: %w", s.Name, streams, direction, err)
			}
			r.Throughput = append(r.Throughput, t)
		}
	}
	r.Memory, err = memory(s.Processes)
	return r, err
}

func memory(ps []Process) ([]Memory, error) {
	us, err := usages(ps)
	var out []Memory
	for i, u := range us {
		out = append(out, Memory{ps[i].Name, float64(u.RSS) / 1e6, float64(u.PeakRSS) / 1e6})
	}
	return out, err
}

// millis is a duration in milliseconds.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
