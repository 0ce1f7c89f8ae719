package relay

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
	"github.com/chivenet/chive/internal/stream"
)

// victimEnv makes the test binary run as a relay only, so that all memory of the
// process is the relay's.
const victimEnv = "CHIVE_TEST_VICTIM"

// TestVictimProcess is that relay: it prints its identity and, for each line that
// it reads, how many bytes its account has and how many it really holds, both at a
// time when nothing changed.
func TestVictimProcess(t *testing.T) {
	if os.Getenv(victimEnv) == "" {
		t.Skip("a part of TestAccountIsTrue")
	}
	silent, err := net.ListenPacket("udp", "127.0.0.1:0") // its name server
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	v := startVictim(t, func(cfg *Config) {
		cfg.Exit.Nameservers[0] = netip.MustParseAddrPort(silent.LocalAddr().String())
		cfg.Exit.IPv6 = true
	})
	tg := v.Target()
	fmt.Printf("victim %x %x %x %s\n", tg.RSA[:], tg.Ed[:], tg.Ntor[:], tg.Addrs[0])
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		account, goroutines := v.memory.Used(), runtime.NumGoroutine()
		now := held()
		for account != v.memory.Used() || goroutines != runtime.NumGoroutine() { // they are not of one moment
			account, goroutines = v.memory.Used(), runtime.NumGoroutine()
			now = held()
		}
		fmt.Printf("victim %d %d %d\n", account, now, goroutines)
	}
}

// held returns the bytes of live objects and stacks.
func held() uint64 {
	runtime.GC()
	runtime.GC() // the first collection has emptied the pools
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() + s[1].Value.Uint64()
}

// otherVictim is a victim in another process.
type otherVictim struct {
	t      *testing.T
	target linkspec.Target
	in     io.Writer
	out    *bufio.Scanner
}

func startOtherVictim(t *testing.T) *otherVictim {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestVictimProcess$")
	cmd.Env = append(os.Environ(), victimEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Its input's end makes the process end by itself and remove its files; a killed one
	// would leave them.
	v := &otherVictim{t: t, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() {
		in.Close()
		var last strings.Builder
		for v.out.Scan() {
			last.WriteString(v.out.Text() + "\n")
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the relay's process: %v\n%s", err, last.String())
		}
	})
	var rsa, ed, ntor []byte
	var addr string
	v.read("%x %x %x %s", &rsa, &ed, &ntor, &addr)
	copy(v.target.RSA[:], rsa)
	copy(v.target.Ed[:], ed)
	copy(v.target.Ntor[:], ntor)
	proto, err := protover.Parse(Protocols)
	if err != nil {
		t.Fatal(err)
	}
	v.target.Proto = proto
	v.target.Addrs = []netip.AddrPort{netip.MustParseAddrPort(addr)}
	return v
}

// read reads the victim's next line.
func (v *otherVictim) read(format string, into ...any) {
	v.t.Helper()
	for v.out.Scan() {
		if line, ok := strings.CutPrefix(v.out.Text(), "victim "); ok {
			if _, err := fmt.Sscanf(line, format, into...); err != nil {
				v.t.Fatalf("%q: %v", line, err)
			}
			return
		}
	}
	v.t.Fatal("the relay has ended")
}

// measure waits until the account and the number of goroutines stop changing, and
// returns the account and the bytes that are really held.
func (v *otherVictim) measure() (account, held int64) {
	v.t.Helper()
	var goroutines int
	for last, before := int64(-1), 0; ; last, before = account, goroutines {
		fmt.Fprintln(v.in)
		v.read("%d %d %d", &account, &held, &goroutines)
		if account == last && goroutines == before {
			return account, held
		}
	}
}

// TestAccountIsTrue compares the account of memory with the heap and the stacks
// of a relay in its own process, under loads of each kind: the error is a fifth
// at most. What there is most of at a relay has a bound of its own. With the race detector it is a third: that makes the frames of functions larger, and so
// the stacks.
func TestAccountIsTrue(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	least := 0.8
	if raceDetector {
		least = 0.67
	}
	source, err := target.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { source.Close() })
	loads := []struct {
		name string
		load func(t *testing.T, v *victim)
		n    int64 // what the load makes, each of which
		most int64 // takes so many bytes at most; zero: no bound
	}{
		{n: 300, most: 16000, name: "links", load: func(t *testing.T, v *victim) {
			for range 300 {
				v.connect(t, nil)
			}
		}},
		{name: "half-open links", load: func(t *testing.T, v *victim) {
			for range 300 {
				c, err := net.Dial("tcp", v.Addrs()[0].String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				// A ClientHello without an end.
				if _, err := c.Write(append([]byte{22, 3, 1, 64, 0, 1, 0, 255, 252, 3, 3}, make([]byte, 16000)...)); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{n: 4000, most: 2800, name: "circuits", load: func(t *testing.T, v *victim) {
			for i := range 4 {
				u := v.connect(t, nil)
				o := circuit.HopOptions{Congestion: i%2 > 0, CGO: i%2 > 0}
				for range 1000 {
					if _, err := circuit.Create(within(t), userEnv, u.ch, v.Target(), o); err != nil {
						t.Fatal(err)
					}
				}
			}
		}},
		{name: "streams that the client does not read", load: func(t *testing.T, v *victim) {
			u := v.connect(t, nil)
			for range 20 {
				c := u.circuit()
				for range 20 {
					s := dialTarget(t, c, source, target.Source)
					if _, err := s.Write([]byte{0, 0, 0, 1, 0, 0, 0, 0}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}},
		{name: "directory requests that do not end", load: func(t *testing.T, v *victim) {
			for range 16 {
				c := v.connect(t, nil).circuit()
				for range 50 { // a circuit with more at once is closed
					s, err := stream.BeginDir(c.Last())
					if err != nil {
						t.Fatal(err)
					}
					if _, err := s.Write([]byte("GET /tor/server/all HTTP/1.0\r\n")); err != nil {
						t.Fatal(err)
					}
				}
			}
		}},
		{name: "lookups without an answer", load: func(t *testing.T, v *victim) {
			for i := range 8 {
				c := v.connect(t, nil).circuit()
				for j := range uint16(150) {
					cmd, body := cell.RelayResolve, fmt.Appendf(nil, "a%d-%d.test\x00", i, j)
					if i%2 > 0 {
						cmd, body = cell.RelayBegin, fmt.Appendf(nil, "a%d-%d.test:80\x00\x00\x00\x00\x01", i, j)
					}
					if err := c.Last().Send(cmd, 1+j, body); err != nil {
						t.Fatal(err)
					}
				}
			}
		}},
		{name: "streams to a server that does not read", load: func(t *testing.T, v *victim) {
			sink, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { sink.Close() })
			a := sink.Addr().(*net.TCPAddr).AddrPort()
			var wg sync.WaitGroup
			for range 4 {
				u := v.connect(t, nil)
				for range 10 {
					s, err := stream.Dial(within(t), u.circuit().Last(), a.Addr().String(), a.Port())
					if err != nil {
						t.Fatal(err)
					}
					s.SetDeadline(time.Now().Add(5 * time.Second))
					wg.Go(func() { _, _ = s.Write(make([]byte, 8<<20)) }) // as much as the relay accepts
				}
			}
			wg.Wait()
		}},
	}
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) {
			other := startOtherVictim(t)
			// The client side of the test, without its relay.
			v := &victim{Relay: &Relay{cfg: Config{Advertise: other.target.Addrs}, keys: &Keys{}}}
			v.as = &other.target
			account0, held0 := other.measure()
			l.load(t, v)
			account, held := other.measure()
			account, held = account-account0, held-held0
			t.Logf("account %d kB, held %d kB: %.2f", account>>10, held>>10, float64(account)/float64(held))
			if r := float64(account) / float64(held); r < least || r > 1.25 {
				t.Errorf("the account says %d bytes, %d are held", account, held)
			}
			if l.most > 0 && !raceDetector && held > l.n*l.most {
				t.Errorf("each takes %d bytes, more than %d", held/l.n, l.most)
			}
		})
	}
}

func dialTarget(t *testing.T, c *circuit.Circuit, tg *target.Target, s target.Service) *stream.Stream {
	t.Helper()
	a := netip.MustParseAddrPort(tg.Addr(s))
	out, err := stream.Dial(within(t), c.Last(), a.Addr().String(), a.Port())
	if err != nil {
		t.Fatal(err)
	}
	return out
}
