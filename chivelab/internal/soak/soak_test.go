package soak

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/lab"
)

var (
	soakTime    = flag.Duration("soak", 45*time.Second, "how long TestSoak has load; it rests twice besides")
	soakProgram = flag.String("soak-program", "", "chive's binary: TestSoak runs relays as processes of it, and kills those")
	soakRate    = flag.Int64("soak-rate", 0, "the most bytes a second that TestSoak moves; 0: as many as it can")
)

// TestSoak puts load on a network while its relays end and come back.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("short: no soak")
	}
	labtest.NoLeaks(t)
	nw, err := lab.Start(t.Context(), lab.Options{VotingInterval: 5 * time.Minute, Processes: *soakProgram != "", Program: *soakProgram, Client: chive.Config{MaxCircuitDirtiness: 10 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	// A machine that sleeps in between costs more than the soak's own time; so do its rests.
	ctx, cancel := context.WithTimeout(t.Context(), *soakTime+10*time.Minute)
	defer cancel()
	r, err := Run(ctx, nw, Plan{Time: *soakTime, Rate: *soakRate, Seed: uint64(time.Now().UnixNano()), Progress: func(r Report) { t.Logf("%+v", r) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *r)
	if err := r.Err(); err != nil {
		t.Error(err)
	}
}

func TestSoakErr(t *testing.T) {
	good := Report{Completed: 10, Cut: 3, Early: Resources{Goroutines: 300, Descriptors: 90, Heap: 20}, Late: Resources{Goroutines: 310, Descriptors: 95, Heap: 21}}
	if err := good.Err(); err != nil {
		t.Error(err)
	}
	for what, spoil := range map[string]func(*Report){
		"wrong bytes": func(r *Report) { r.Wrong = 1 },
		"nothing":     func(r *Report) { r.Completed = 0 },
		"goroutines":  func(r *Report) { r.Late.Goroutines = 600 },
		"descriptors": func(r *Report) { r.Late.Descriptors = 200 },
		"heap":        func(r *Report) { r.Late.Heap = 60 },
	} {
		bad := good
		spoil(&bad)
		if bad.Err() == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
