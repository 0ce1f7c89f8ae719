package deploy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Watched is a node whose metrics the monitor collects.
type Watched struct {
	Name string
	At   netip.AddrPort
}

// ParseWatched reads "NAME=ADDR".
func ParseWatched(s string) (Watched, error) {
	name, addr, ok := strings.Cut(s, "=")
	at, err := netip.ParseAddrPort(addr)
	if !ok || err != nil || name == "" {
		return Watched{}, fault.New(fault.Config, "%q is not NAME=IP:PORT", s)
	}
	return Watched{name, at}, nil
}

// Bounds of what a node may answer.
const (
	maxMetrics = 1 << 20 // bytes
	maxRows    = 10_000
	maxAnswer  = 5 * time.Second
)

// upMetric is 1 if a node has answered, as Prometheus has it.
const upMetric = "up"

// Watch asks all nodes for their metrics (Prometheus' text) at each tick, and adds what they say to a file in dir, until
// ctx ends. A node that does not answer has up = 0 then. The file has MaxMetricsFile bytes at most: when it is full, every
// second look is taken out, and nodes are asked at every second tick.
func Watch(ctx context.Context, nodes []Watched, ticks <-chan time.Time, dir string) error {
	return watch(ctx, nodes, ticks, dir, MaxMetricsFile)
}

func watch(ctx context.Context, nodes []Watched, ticks <-chan time.Time, dir string, most int64) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	file, err := newMetricsFile(dir, most)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	client := &http.Client{Timeout: maxAnswer}
	defer client.CloseIdleConnections()
	began := time.Now()
	for {
		if file.wants() {
			if err := file.add(askAll(ctx, client, nodes, time.Since(began))); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks:
		}
	}
}

// askAll asks all nodes, and returns rows of the file.
func askAll(ctx context.Context, client *http.Client, nodes []Watched, since time.Duration) (rows [][]string) {
	all := make([][][2]string, len(nodes))
	var asking sync.WaitGroup
	for i, n := range nodes {
		asking.Go(func() { all[i] = ask(ctx, client, n.At) })
	}
	asking.Wait()
	at := strconv.FormatFloat(since.Seconds(), 'f', 6, 64) // no two looks have the same: see everySecond
	for i, n := range nodes {
		for _, m := range all[i] {
			rows = append(rows, []string{at, n.Name, m[0], m[1]})
		}
	}
	return rows
}

// ask returns the metrics of a node, with their labels, and whether it was up.
func ask(ctx context.Context, client *http.Client, at netip.AddrPort) [][2]string {
	out, err := scrape(ctx, client, at)
	if err != nil {
		return [][2]string{{upMetric, "0"}}
	}
	return append(out, [2]string{upMetric, "1"})
}

func scrape(ctx context.Context, client *http.Client, at netip.AddrPort) ([][2]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.String()+"/metrics", nil)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fault.New(fault.Network, "%w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fault.New(fault.Network, "metrics: %s", res.Status)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxMetrics+1))
	if err != nil {
		return nil, fault.New(fault.Network, "%w", err)
	}
	if len(text) > maxMetrics { // cut off, the last value would be another number
		return nil, fault.New(fault.Network, "the metrics are more than %d bytes", maxMetrics)
	}
	return readMetrics(bytes.NewReader(text))
}

// readMetrics reads Prometheus' text: each line that is no comment is a metric with labels, and a value.
func readMetrics(r io.Reader) (out [][2]string, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		end := strings.IndexByte(line, ' ')
		if b := strings.LastIndexByte(line, '}'); b >= 0 { // a label's value may have spaces
			end = b + 1
		}
		if end <= 0 {
			return nil, fault.New(fault.Network, "a line of metrics has no value")
		}
		value, _, _ := strings.Cut(strings.TrimSpace(line[end:]), " ") // a time may follow
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return nil, fault.New(fault.Network, "a metric's value is no number")
		}
		if out = append(out, [2]string{line[:end], value}); len(out) > maxRows {
			return nil, fault.New(fault.Network, "more than %d metrics", maxRows)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fault.New(fault.Network, "%w", err)
	}
	return out, nil
}
