package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/measure"
	"github.com/chivenet/chive/internal/lab/netns"
)

// TestMeasure measures the clients on the same relays of one Vanilla network, in
// a network namespace if it can make one. It runs only with CHIVE_MEASURE=1 and
// takes minutes.
func TestMeasure(t *testing.T) {
	if os.Getenv("CHIVE_MEASURE") != "1" {
		t.Skip("a measurement: CHIVE_MEASURE=1 asks for it")
	}
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	if err := netns.Available(); err == nil && !netns.Inside() {
		measureInside(t)
		return
	} else if err != nil {
		t.Logf("NOT in a namespace, delayed acknowledgements count: %v", err)
	}
	ctx := bounded(t, 10*time.Minute)
	nw := ctortest.Network(t, ctor.Options{Relays: 2, Exits: 1, Scheduler: "Vanilla"})
	pin := []*ctor.Node{nw.Node("relay0"), nw.Node("relay1"), nw.Node("exit0")}
	var reports []*measure.Report
	subjects := []subject{torClient{}}
	if arti, err := findArti(); err == nil {
		subjects = append(subjects, artiClient{arti})
	}
	for _, s := range subjects {
		o := startOptions{dir: t.TempDir(), pin: pin}
		if s.quirks().noPins {
			o.pin = nil // the network is so small that its paths are of the same relays
		}
		p := start(t, s, nw, o)
		sub := measure.Subject{Name: s.name(), Dial: p.dialer().DialContext,
			Processes: []measure.Process{{Name: "client", PID: p.pid}}}
		for i, position := range []string{"guard", "middle", "exit"} {
			sub.Processes = append(sub.Processes, measure.Process{Name: position, PID: pin[i].PID()})
		}
		r, err := measure.Run(ctx, sub, shared.target, measure.DefaultPlan())
		if err != nil {
			t.Fatal(err)
		}
		if _, tor := s.(torClient); tor {
			client, err := unpinned(ctx, nw)
			if err != nil {
				t.Fatal(err)
			}
			control, err := client.Control(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer control.Close()
			builder, err := measure.TorBuilder(ctx, control, pin)
			if err != nil {
				t.Fatal(err)
			}
			builds, err := measure.Builds(ctx, 100, builder)
			if err != nil {
				t.Fatal(err)
			}
			r.Build = builds[0]
			if r.Bootstrap, _, err = measure.TorBootstrap(ctx, nw); err != nil {
				t.Fatal(err)
			}
		}
		reports = append(reports, r)
	}
	if err := measure.WriteTable(os.Stdout, reports...); err != nil {
		t.Error(err)
	}
	b, err := json.Marshal(reports)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s\n", b)
}

// unpinned starts a C tor client that, after its bootstrap, builds only requested
// circuits.
func unpinned(ctx context.Context, nw *ctor.Network) (*ctor.Node, error) {
	n, err := nw.AddClient(ctx, "", "LearnCircuitBuildTimeout 0")
	if err != nil {
		return nil, err
	}
	if err := n.AwaitBootstrap(ctx); err != nil {
		return nil, err
	}
	c, err := n.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return n, c.SetConf(ctx, "__DisablePredictedCircuits=1")
}

// measureInside runs TestMeasure again, in a namespace.
func measureInside(t *testing.T) {
	ctx := bounded(t, 12*time.Minute)
	ns, err := netns.New(ctx, fmt.Sprint("chive-measure-", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	}()
	cmd := ns.Command(ctx, os.Args[0], "-test.run=^TestMeasure$", "-test.v")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
}
