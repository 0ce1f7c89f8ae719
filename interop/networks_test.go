package interop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/target"
)

// world is shared by the tests of this package: one target, and one network of
// each kind, started when a test first needs it.
type world struct {
	target *target.Target
	nets   map[string]*sharedNet // by kind; one for each of kinds
}

// sharedNet is a network of one kind.
type sharedNet struct {
	mu sync.Mutex // guards nw; held while it starts
	nw *ctor.Network
}

var shared = &world{nets: map[string]*sharedNet{}}

// No exit's policy allows this port or this address.
const (
	refusedPort = 9
	refusedAddr = "127.66.6.6"
)

// kinds are the networks. Between them: one, three and five authorities, both
// schedulers, congestion control on and off, CGO on and off.
var kinds = map[string]ctor.Options{
	"kist": {Authorities: 3, Relays: 3, Exits: 3, IPv6: ctor.HasIPv6(),
		ExitPolicy: []string{"reject " + refusedAddr + ":*", fmt.Sprintf("reject *:%d", refusedPort), fmt.Sprintf("reject6 *:%d", refusedPort), "accept *:*", "accept6 *:*"}},
	"vanilla": {Authorities: 3, Relays: 4, Exits: 2, Scheduler: "Vanilla"},
	"no-cc": {Authorities: 1, Relays: 2, Exits: 2, Scheduler: "Vanilla", Params: map[string]int{"cc_alg": 0},
		VotingInterval: 10 * time.Second, ValidIntervals: 2},
	"no-cgo": {Authorities: 5, Relays: 2, Exits: 2, Scheduler: "Vanilla", WithoutCGO: true, DistinctSubnets: true},
}

// network returns the shared network of a kind, or skips the test without tor.
func network(t *testing.T, kind string) *ctor.Network {
	t.Helper()
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	s := shared.nets[kind]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nw != nil {
		tellOfFailure(t, s.nw)
		return s.nw
	}
	opts := kinds[kind]
	opts.Nameserver = shared.target.Nameserver()
	opts.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	nw, err := ctor.Start(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	s.nw = nw
	tellOfFailure(t, nw)
	return nw
}

// tellOfFailure makes a failed test show the logs of the network.
func tellOfFailure(t *testing.T, nw *ctor.Network) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(nw.LastWords())
		}
	})
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if shared.target, err = target.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for kind := range kinds {
		shared.nets[kind] = new(sharedNet)
	}
	code := m.Run()
	errs := []error{shared.target.Close()}
	for _, s := range shared.nets {
		if s.nw != nil {
			errs = append(errs, s.nw.Close())
		}
	}
	if built != "" {
		errs = append(errs, os.RemoveAll(built))
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
