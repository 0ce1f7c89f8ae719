package appearance

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/ports"
	"github.com/chivenet/chive/internal/panics"
)

// Answer is what two bridges answered to one probe.
type Answer struct {
	Name, What    string
	First, Second string
	Known         string // why they may differ; empty: they must not
}

// Different reports whether they differ.
func (a *Answer) Different() bool { return a.First != a.Second }

// Answers starts a bridge of each subject, puts all probes to both, and compares what they answer.
func Answers(ctx context.Context, dir string, subjects [2]Subject) (out []Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var leases ports.Leases
	defer leases.Release()
	var addrs [2]string
	for i := range subjects {
		addr, stop, bad := startBridge(ctx, filepath.Join(dir, fmt.Sprintf("bridge%d", i)), &leases, &subjects[i])
		if bad != nil {
			return nil, bad
		}
		defer func() { err = errors.Join(err, stop()) }()
		addrs[i] = addr
	}
	all := append(probes(), linkProbes()...)
	out = make([]Answer, len(all))
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(panics.Contain(nil, func(err error) { errs[i] = err }, func() { out[i], errs[i] = all[i].compare(ctx, addrs) }))
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

// compare puts a probe to both bridges. On a busy machine one may be too slow for an answer: if they differ, it asks again and waits
// longer.
func (p *probe) compare(ctx context.Context, addrs [2]string) (a Answer, err error) {
	for _, patience := range []time.Duration{probePatience, 4 * probePatience, 10 * probePatience} {
		ctx := context.WithValue(ctx, patienceKey{}, patience)
		a = Answer{Name: p.name, What: p.what, Known: p.known}
		if a.First, err = p.ask(ctx, addrs[0]); err == nil {
			a.Second, err = p.ask(ctx, addrs[1])
		}
		if err == nil && (!a.Different() || p.known != "") {
			return a, nil
		}
	}
	if err != nil {
		err = fault.New(fault.KindOf(err), "%s: %w", p.name, err)
	}
	return a, err
}

// JudgeAnswers returns what is wrong: a difference that is not known, and one that is known and gone.
func JudgeAnswers(all []Answer) (wrong []string) {
	for i := range all {
		switch a := &all[i]; {
		case a.Different() && a.Known == "":
			wrong = append(wrong, fmt.Sprintf("%s: a new difference: to %s the answer is %q, not %q", a.Name, a.What, a.Second, a.First))
		case !a.Different() && a.Known != "":
			wrong = append(wrong, fmt.Sprintf("%s: no longer different (%s)", a.Name, a.Second))
		}
	}
	return wrong
}

// startBridge starts a bridge that no network has, and returns its port when it is open.
func startBridge(ctx context.Context, dir string, ports *ports.Leases, s *Subject) (addr string, stop func() error, err error) {
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
		return "", nil, fault.Wrap(fault.Local, err)
	}
	port, err := ports.Take(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		return "", nil, err
	}
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	lines := []string{
		"DataDirectory " + filepath.Join(dir, "data"), "SocksPort 0", "ORPort " + addr + " IPv4Only", "Address 127.0.0.1", "BridgeRelay 1",
		"AssumeReachable 1", "PublishServerDescriptor 0", "ContactInfo none", "Log notice stdout",
		// Nobody is there.
		"DirAuthority none orport=1 no-v2 v3ident=" + strings.Repeat("A", 40) + " 127.0.0.1:1 " + strings.Repeat("B", 40),
	}
	if s.Chive {
		lines = append(lines, "TestingTorNetwork 1") // a network file's private addresses
	} else {
		lines = append(lines, "GeoIPFile /dev/null", "GeoIPv6File /dev/null") // they take time at the start
	}
	torrc := filepath.Join(dir, "torrc")
	if err := os.WriteFile(torrc, []byte(strings.Join(append(lines, s.Torrc...), "\n")+"\n"), 0o600); err != nil {
		return "", nil, fault.Wrap(fault.Local, err)
	}
	args := append(append([]string{}, s.Command[1:]...), "--defaults-torrc", "/nonexistent", "-f", torrc)
	p, _, err := child.Run(ctx, nil, exec.Command(s.Command[0], args...), func(line string) bool {
		return strings.Contains(line, "Opened OR listener connection (ready) on "+addr)
	})
	if err != nil {
		return "", nil, err
	}
	// C tor may do other things between its listener and the first connection.
	for {
		if _, err = certificateForm(ctx, addr); err == nil {
			return addr, p.Stop, nil
		}
		select {
		case <-ctx.Done():
			return "", nil, errors.Join(err, p.Stop())
		case <-time.After(askAgain):
		}
	}
}

// askAgain is between two connections to a bridge that has just started.
const askAgain = 50 * time.Millisecond
