package ftebench

import (
	"bufio"
	"context"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// iperf (version 2) makes the load of "How many users can an fteproxy server
// serve?". Here the server counts: a client counts all bytes that it wrote to its
// socket, which are many megabytes more than have arrived.

// iperfServer is iperf's end behind the proxies.
type iperfServer struct {
	p     *process
	lines chan string
}

func startIperf(ctx context.Context, binary string) (*iperfServer, error) {
	p, err := lease()
	if err != nil {
		return nil, err
	}
	_, port := split(p.addr)
	s := &iperfServer{p: p, lines: make(chan string, 1<<15)}
	p.cmd = exec.CommandContext(ctx, binary, "-s", "-B", "127.0.0.1", "-p", port, "-y", "C")
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		p.leases.Release()
		return nil, fault.New(fault.Config, "starting iperf: %w", err)
	}
	go func() {
		for sc := bufio.NewScanner(out); sc.Scan(); {
			select {
			case s.lines <- sc.Text():
			default: // more lines than expected
			}
		}
		p.wait()
	}()
	if err := p.listens(ctx, "iperf"); err != nil {
		return nil, err
	}
	return s, nil
}

// run makes n connections upload to the server through addr. It returns the
// server's throughput in Mbit/s, up to the last byte, because connections do not
// all begin and end together.
func (s *iperfServer) run(ctx context.Context, binary, addr string, n int, d time.Duration) (float64, error) {
	for len(s.lines) > 0 { // lines of probes that tested whether it listens
		<-s.lines
	}
	seconds := max(1, int(d.Round(time.Second)/time.Second))
	ip, port := split(addr)
	ctx, cancel := context.WithTimeout(ctx, d+6*pingTime)
	defer cancel()
	client := exec.CommandContext(ctx, binary, "-c", ip, "-p", port, "-P", strconv.Itoa(n), "-t", strconv.Itoa(seconds), "-y", "C")
	client.WaitDelay = time.Second
	began := time.Now()
	if out, err := client.CombinedOutput(); err != nil {
		return 0, fault.New(fault.Local, "iperf with %d connections: %w: %.200s", n, err, out)
	}
	var total float64
	for got := 0; got < n; {
		select {
		case line := <-s.lines:
			// time, address, port, address, port, id, interval, bytes, bit/s
			field := strings.Split(line, ",")
			if len(field) < 9 {
				return 0, fault.New(fault.Local, "iperf says %.200q", line)
			}
			b, err := strconv.ParseFloat(field[7], 64)
			if err != nil {
				return 0, fault.New(fault.Local, "iperf says %.200q: %w", line, err)
			}
			if b > 0 { // a probe's is 0
				total += b
				got++
			}
		case <-ctx.Done():
			return 0, fault.New(fault.Timeout, "iperf's server tells of %d connections out of %d", got, n)
		}
	}
	return 8 * total / time.Since(began).Seconds() / 1e6, nil
}

// rawIperf measures without a proxy.
func rawIperf(ctx context.Context, p Plan, n int) (float64, error) {
	s, err := startIperf(ctx, p.Iperf)
	if err != nil {
		return 0, err
	}
	defer s.p.stop()
	return s.run(ctx, p.Iperf, s.p.addr, n, p.Time)
}

// iperfPair is a pair of proxies in front of iperf's server.
type iperfPair struct {
	server *iperfServer
	pr     *pair
	enter  *entrance
}

func startIperfPair(ctx context.Context, p Plan, kind, format, dir string) (*iperfPair, error) {
	s, err := startIperf(ctx, p.Iperf)
	if err != nil {
		return nil, err
	}
	i := &iperfPair{server: s}
	if i.pr, err = startPair(ctx, p, kind, format, dir, s.p.addr); err != nil {
		s.p.stop()
		return nil, err
	}
	if kind == Obfs4 {
		if i.enter, err = newEntrance(i.pr.dial); err != nil {
			i.stop()
			return nil, err
		}
	}
	return i, nil
}

// measure is one point of the curve.
func (i *iperfPair) measure(ctx context.Context, p Plan, n int) (float64, error) {
	addr := i.pr.client.addr
	if i.enter != nil {
		addr = i.enter.l.Addr().String()
	}
	return i.server.run(ctx, p.Iperf, addr, n, p.Time)
}

func (i *iperfPair) stop() {
	if i.enter != nil {
		i.enter.l.Close()
	}
	i.pr.stop()
	i.server.p.stop()
}

// entrance is a plain TCP port in front of a SOCKS client, because iperf does not
// support SOCKS. The kernel moves the bytes (splice), so it costs little.
type entrance struct{ l net.Listener }

func newEntrance(dial dialer) (*entrance, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.New(fault.Network, "listening: %w", err)
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				defer in.Close()
				out, err := dial(context.Background())
				if err != nil {
					return // iperf reports a connection that ends
				}
				defer out.Close()
				go func() {
					io.Copy(in, out)
					in.Close()
				}()
				io.Copy(out, in)
			}()
		}
	}()
	return &entrance{l}, nil
}
