package linkcheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/chivelab/internal/linkstack"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// The hosts of a check, and the port at which the receiver waits.
var (
	sender   = netip.AddrFrom4([4]byte{10, 88, 0, 1})
	receiver = netip.AddrFrom4([4]byte{10, 88, 0, 2})
)

const port = 4000

// Config says what is measured.
type Config struct {
	Name  string
	Rules links.Rules
	Seed  uint64
	// Seconds is how long each of at most three phases may take, about; 0: 2.
	Seconds  float64
	Bound    links.Bound
	Progress func(done, of int) // may be nil
	// Probe is the program that sends and receives beside TUN devices: it is called with the
	// arguments of ProbeArgs. Empty: hosts in this process.
	Probe []string
}

// attached is a pair of hosts.
type attached struct {
	up      func() *links.Line
	down    *links.Line
	send    func(ctx context.Context, volleys []Volley, pause time.Duration, progress func(done, of int)) error
	records io.Reader
	close   func()
}

// Run measures the rules as those of the sender's way up; all else takes no time. If the emulator
// was late, the report says that it is refused.
func Run(ctx context.Context, c Config) (*Report, error) {
	if err := c.Rules.Check(); err != nil {
		return nil, err
	}
	if c.Seconds == 0 {
		c.Seconds = 2
	}
	if c.Progress == nil {
		c.Progress = func(int, int) {}
	}
	n := links.NewNet(c.Seed)
	defer n.Close()
	attach, name := attachStack, "in process"
	if len(c.Probe) > 0 {
		attach, name = attachTUN, "tun"
	}
	var transparent links.Rules
	transparent.MTU = c.Rules.MTU
	at, err := attach(n, c, links.Access{Up: links.Direction{Rules: c.Rules}, Down: links.Direction{Rules: transparent}},
		links.Access{Up: links.Direction{Rules: transparent}, Down: links.Direction{Rules: transparent}})
	if err != nil {
		return nil, err
	}
	defer at.close()

	collect := &collector{came: make(chan struct{}, 1)}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer at.close() // which ends the records
	wg.Go(panics.Contain(nil, nil, func() { collect.run(at.records) }))
	if err := collect.await(ctx, 1, startTime); err != nil { // the empty one
		return nil, err
	}
	volleys := plan(c.Rules, c.Seconds)
	// After a volley all that it left has gone.
	pause := 4*(c.Rules.Delay+c.Rules.Spread+c.Rules.ReorderBy)/3 + 200*time.Millisecond
	if c.Rules.Rate > 0 {
		pause += time.Duration(float64(c.Rules.Defaults().Queue) * 8 / float64(c.Rules.Rate) * float64(time.Second))
	}
	pause = min(pause, time.Duration(2*c.Seconds*float64(time.Second))+c.Rules.Delay)
	if err := at.send(ctx, volleys, pause, c.Progress); err != nil {
		return nil, err
	}
	report := &Report{Link: c.Name, Attachment: name}
	missing := collect.await(ctx, 1+int(at.down.Count(links.Passed)), 2*time.Second)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	all := collect.arrivals()
	report.Packets, report.Values, report.Late = len(all), values(c.Rules, volleys, all), n.Lateness()
	switch err := c.Bound.Refuse(report.Late); {
	case err != nil:
		report.Refused = err.Error()
	case missing != nil:
		report.Refused = missing.Error()
	default:
		sent, seen := 0, uint64(0)
		for _, v := range volleys {
			sent += v.Count
		}
		for f := range links.Fates {
			seen += at.up().Count(f)
		}
		if int(seen) != sent {
			report.Refused = fmt.Sprintf("%d packets were sent, and %d reached the emulator: this machine was too slow", sent, seen)
		}
	}
	if report.Refused != "" {
		report.Values = nil
	}
	return report, nil
}

// startTime bounds the start of the receiver.
const startTime = 30 * time.Second

// collector reads records.
type collector struct {
	came chan struct{}
	mu   sync.Mutex
	all  []arrival // guarded by mu
	n    int       // guarded by mu: with the empty one
	done bool      // guarded by mu
}

func (c *collector) run(r io.Reader) {
	b := make([]byte, recordSize)
	for {
		_, err := io.ReadFull(r, b)
		c.mu.Lock()
		if err != nil {
			c.done = true
		} else {
			c.n++
			if b[0] != 0 {
				c.all = append(c.all, parse(b))
			}
		}
		c.mu.Unlock()
		select {
		case c.came <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (c *collector) arrivals() []arrival {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]arrival(nil), c.all...)
}

// await waits for a number of records.
func (c *collector) await(ctx context.Context, n int, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		c.mu.Lock()
		have, done := c.n, c.done
		c.mu.Unlock()
		if have >= n {
			return nil
		}
		if done {
			return fault.New(fault.Local, "the receiver has ended after %d packets of %d", have, n)
		}
		select {
		case <-c.came:
		case <-timer.C:
			return fault.New(fault.Resource, "the receiver has read %d packets of the %d that came: this machine was too slow", have, n)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// attachStack makes hosts in this process.
func attachStack(n *links.Net, _ Config, from, to links.Access) (*attached, error) {
	a, err := linkstack.Attach(n, sender, from)
	if err != nil {
		return nil, err
	}
	b, err := linkstack.Attach(n, receiver, to)
	if err != nil {
		a.Close()
		return nil, err
	}
	closeHosts := func() { a.Close(); b.Close() }
	out, err1 := a.ListenPacket(port)
	in, err2 := b.ListenPacket(port)
	if err := errors.Join(err1, err2); err != nil {
		closeHosts()
		return nil, err
	}
	r, w := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(panics.Contain(nil, nil, func() { w.CloseWithError(Receive(in, w)) }))
	return &attached{up: a.Port().Up, down: b.Port().Down(), records: r,
		send: func(ctx context.Context, v []Volley, pause time.Duration, progress func(done, of int)) error {
			stop := context.AfterFunc(ctx, func() { out.Close() })
			defer stop()
			return Send(out, &net.UDPAddr{IP: receiver.AsSlice(), Port: port}, v, pause, progress)
		},
		close: sync.OnceFunc(func() {
			out.Close()
			in.Close()
			r.Close()
			wg.Wait()
			closeHosts()
		})}, nil
}
