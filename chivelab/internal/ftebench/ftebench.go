// Package ftebench measures a pair of format-transforming proxies, client and
// server, over loopback: throughput by number of connections, compared with the
// machine without proxies, processor time and memory of both sides, expansion
// and round trip. It reproduces "How many users can an fteproxy server serve?".
//
// The measuring process itself makes and counts the load. The proxies are
// separate processes, so that their cost can be measured alone.
package ftebench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ports"
)

// Kinds of proxy pairs, as named in a Plan.
const (
	Classic  = "classic"  // Chive with fteproxy's protocol
	Bulk     = "bulk"     // Chive's protocol, records after a formatted prefix
	Strict   = "strict"   // Chive's protocol, every byte in the language
	Fteproxy = "fteproxy" // the original program
	Obfs4    = "obfs4"    // obfs4proxy, as Tor runs it; it has no formats
)

// A Plan says what to measure.
type Plan struct {
	Chive       string        // path of the chive binary
	Fteproxy    string        // path of fteproxy 0.3, for kind Fteproxy
	Obfs4proxy  string        // path of obfs4proxy, for kind Obfs4
	Iperf       string        // path of iperf 2, to measure uploads with it, too; "": without iperf
	Kinds       []string      // of proxy pairs, for all Formats, or with one as kind/format
	Formats     []string      // without -request and -response
	Connections []int         // ascending
	Time        time.Duration // how long each throughput is measured
	Pings       int           // round trips of 64 bytes
	Demand      float64       // Mbit/s demand of one user
}

// A Report holds the results of a measurement.
type Report struct {
	Cores   int      `json:"cores"`
	Go      string   `json:"go"`
	Arch    string   `json:"arch"`
	Seconds float64  `json:"seconds_per_point"`
	Demand  float64  `json:"demand_mbit_per_user"`
	Raw     []Point  `json:"raw"` // without a proxy
	Pairs   []Result `json:"pairs"`
	Ratios  []Ratio  `json:"ratios"`
}

// A Result holds the results of one pair.
type Result struct {
	Kind   string  `json:"kind"`
	Format string  `json:"format"`
	Points []Point `json:"points"`
	// Expansion is bytes between the proxies for each byte carried, each way.
	ExpansionUp   float64 `json:"expansion_up"`
	ExpansionDown float64 `json:"expansion_down"`
	PingP50       float64 `json:"ping_p50_ms"`
	PingP95       float64 `json:"ping_p95_ms"`
	// UsersPerCore is how many users with the demand one core of the server can
	// serve; upload and download together count once. It is computed from the
	// server's processor time per bit at the largest number of connections.
	UsersPerCore float64 `json:"users_per_core"`
	Failed       string  `json:"failed,omitempty"` // why there is no more
}

// A Point is the throughput of a number of connections. Up is from the client
// to the server. Memory is the larger of both, under load.
type Point struct {
	Connections int     `json:"connections"`
	Up          float64 `json:"up_mbit"`
	Down        float64 `json:"down_mbit"`
	// Iperf is the upload that iperf's server counted, in a run of its own.
	Iperf float64 `json:"iperf_up_mbit,omitempty"`
	// Cores that were busy on average, while uploading and downloading.
	ClientUp   float64 `json:"client_cores_up"`
	ServerUp   float64 `json:"server_cores_up"`
	ClientDown float64 `json:"client_cores_down"`
	ServerDown float64 `json:"server_cores_down"`
	ClientRSS  float64 `json:"client_rss_mb"` // 10^6 bytes
	ServerRSS  float64 `json:"server_rss_mb"`
}

// Run measures everything in the plan. A pair that does not work is reported as
// failed, and the others are measured. progress is called with each line of
// text.
func Run(ctx context.Context, p Plan, progress func(line string)) (*Report, error) {
	if len(p.Connections) == 0 || slices.Min(p.Connections) < 1 || slices.Max(p.Connections) > 10000 {
		return nil, fault.New(fault.Config, "numbers of connections are 1 to 10000")
	}
	if p.Time <= 0 || p.Pings < 1 || p.Demand <= 0 {
		return nil, fault.New(fault.Config, "time, pings and demand are above 0")
	}
	if err := p.checkKinds(); err != nil {
		return nil, err
	}
	slices.Sort(p.Connections)
	b, err := newBackend()
	if err != nil {
		return nil, err
	}
	defer b.close()
	r := &Report{Cores: runtime.NumCPU(), Go: runtime.Version(), Arch: runtime.GOARCH, Seconds: p.Time.Seconds(), Demand: p.Demand}
	for _, n := range p.Connections {
		pt, err := b.point(ctx, to(b.addr()), n, p.Time, nil)
		if err != nil {
			return nil, err
		}
		if p.Iperf != "" {
			if pt.Iperf, err = rawIperf(ctx, p, n); err != nil {
				return nil, err
			}
		}
		r.Raw = append(r.Raw, *pt)
		progress(pt.line("raw", ""))
	}
	dir, err := os.MkdirTemp("", "chive-bench-fte")
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	defer os.RemoveAll(dir)
	for _, kind := range p.Kinds {
		formats := p.Formats
		kind, format, one := strings.Cut(kind, "/")
		switch {
		case kind == Obfs4:
			formats = []string{""}
		case one:
			formats = []string{format}
		}
		for _, format := range formats {
			res := Result{Kind: kind, Format: format}
			if err := measurePair(ctx, p, b, dir, &res, progress); err != nil {
				if ctx.Err() != nil {
					return nil, err
				}
				res.Failed = err.Error()
				progress(kind + " " + format + ": " + res.Failed)
			}
			r.Pairs = append(r.Pairs, res)
		}
	}
	r.compare()
	return r, nil
}

// measurePair fills in res.
func measurePair(ctx context.Context, p Plan, b *backend, dir string, res *Result, progress func(string)) error {
	pr, err := startPair(ctx, p, res.Kind, res.Format, dir, b.addr())
	if err != nil {
		return err
	}
	defer pr.stop()
	var ip *iperfPair
	if p.Iperf != "" {
		if ip, err = startIperfPair(ctx, p, res.Kind, res.Format, dir); err != nil {
			return err
		}
		defer ip.stop()
	}
	if res.PingP50, res.PingP95, err = b.pings(ctx, pr.dial, p.Pings); err != nil {
		return err
	}
	if res.ExpansionUp, res.ExpansionDown, err = b.expansion(ctx, pr.counted, pr.count); err != nil {
		return err
	}
	for _, n := range p.Connections {
		pt, err := b.point(ctx, pr.dial, n, p.Time, pr)
		if err != nil {
			return err
		}
		if ip != nil {
			if pt.Iperf, err = ip.measure(ctx, p, n); err != nil {
				return err
			}
		}
		res.Points = append(res.Points, *pt)
		progress(pt.line(res.Kind, res.Format))
	}
	last := res.Points[len(res.Points)-1]
	if cores := last.ServerUp + last.ServerDown; cores > 0 {
		res.UsersPerCore = (last.Up + last.Down) / cores / p.Demand
	}
	return nil
}

// pair is a client and a server that are running.
type pair struct {
	server, client *process
	second         *process // a client that goes through count
	dial, counted  dialer   // through client, and through second
	count          *counter
}

// process is the process of a proxy.
type process struct {
	cmd    *exec.Cmd
	addr   string        // address on which it listens
	leases ports.Leases  // of the address's port
	ended  chan struct{} // closed when it has ended
}

// stop ends a process, and waits until it has.
func (p *process) stop() {
	if p == nil {
		return
	}
	p.cmd.Process.Kill()
	<-p.ended
}

func (p *pair) stop() {
	p.client.stop()
	p.second.stop()
	p.server.stop()
	if p.count != nil {
		p.count.close()
	}
}

// startPair starts a server, a client, and a client through a counter.
func startPair(ctx context.Context, p Plan, kind, format, dir, backend string) (_ *pair, err error) {
	pr := &pair{}
	defer func() {
		if err != nil {
			pr.stop()
		}
	}()
	if kind == Obfs4 {
		return pr, startObfs4(ctx, p.Obfs4proxy, dir, backend, pr)
	}
	binary, prefix := p.Chive, []string{"fte", "--quiet"}
	var server, client []string
	switch kind {
	case Classic:
	case Fteproxy:
		if binary, prefix = p.Fteproxy, []string{"--quiet"}; binary == "" {
			return nil, fault.New(fault.Config, "where is fteproxy?")
		}
	case Bulk, Strict:
		keys := filepath.Join(dir, "keys")
		if _, err := os.Stat(keys); err != nil {
			out, err := exec.CommandContext(ctx, p.Chive, "fte", "keygen", keys).Output()
			if err != nil {
				return nil, fault.New(fault.Local, "making a key: %w", err)
			}
			if err := os.WriteFile(filepath.Join(dir, "cert"), out, 0o600); err != nil {
				return nil, fault.Wrap(fault.Local, err)
			}
		}
		cert, err := os.ReadFile(filepath.Join(dir, "cert"))
		if err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
		prefix = append(prefix, "--protocol", "chive", "--wire", kind)
		server = []string{"--key-file", keys}
		client = []string{"--cert", strings.TrimSpace(string(cert))}
	default:
		return nil, fault.New(fault.Config, "there is no kind %q: %s, %s, %s, %s and %s", kind, Classic, Bulk, Strict, Fteproxy, Obfs4)
	}
	prefix = append(prefix, "--upstream-format", format+"-request", "--downstream-format", format+"-response")
	ip, port := split(backend)
	pr.server, err = start(ctx, binary, "server", slices.Concat(prefix, []string{"--mode", "server", "--proxy_ip", ip, "--proxy_port", port}, server))
	if err != nil {
		return nil, err
	}
	if pr.count, err = newCounter(pr.server.addr); err != nil {
		return nil, err
	}
	for _, c := range []struct {
		to string
		p  **process
	}{{pr.server.addr, &pr.client}, {pr.count.addr(), &pr.second}} {
		ip, port := split(c.to)
		*c.p, err = start(ctx, binary, "client", slices.Concat(prefix, []string{"--mode", "client", "--server_ip", ip, "--server_port", port}, client))
		if err != nil {
			return nil, err
		}
	}
	pr.dial, pr.counted = to(pr.client.addr), to(pr.second.addr)
	return pr, nil
}
