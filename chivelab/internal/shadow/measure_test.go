package shadow

import (
	"context"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/lab"
)

// TestNodes runs what measures in a simulation on a network outside of one.
func TestNodes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	nw, err := lab.Start(ctx, lab.Options{Authorities: 1, Relays: 2, Exits: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	text, err := os.ReadFile(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	m := &Measurement{File: parse(t, ntor), Path: []string{"chiverelay0", "chiveexit0"}, Out: filepath.Join(t.TempDir(), resultsDir), Version: "1"}
	if m.Network, err = netfile.Parse(nw.NetworkFile, text); err != nil {
		t.Fatal(err)
	}
	if m.Echo, err = netip.ParseAddrPort(nw.Echo); err != nil {
		t.Fatal(err)
	}
	web, err := url.Parse(nw.URL(1))
	if err != nil {
		t.Fatal(err)
	}
	if m.Web, err = netip.ParseAddrPort(web.Host); err != nil {
		t.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	_, _, samples, err := experiment.Read(m.Out)
	if err != nil {
		t.Fatal(err)
	}
	if len(samples) != len(m.File.Tasks()) {
		t.Errorf("%d samples of %d tasks", len(samples), len(m.File.Tasks()))
	}
	for _, s := range samples {
		if s.Failed != "" || s.Late || len(s.Values) == 0 {
			t.Errorf("%+v", s)
		}
	}
	fetching, end := context.WithCancel(ctx)
	defer end()
	f := &Fetches{Proxy: nw.SOCKS, Target: web.Host, Name: Chive, Pause: time.Millisecond, Seed: 1, Out: filepath.Join(t.TempDir(), fetchesName)}
	f.after = func(n int) {
		if n == 3 {
			end()
		}
	}
	if err := f.Run(fetching); err != nil {
		t.Fatal(err)
	}
	got, err := experiment.ReadSamples(f.Out)
	if err != nil || len(got) != 3 {
		t.Fatalf("%d samples, %v", len(got), err)
	}
	for _, s := range got {
		if s.Failed != "" || s.Values[experiment.MeasureTotal] < s.Values[experiment.MeasureFirst] || s.Values[experiment.MeasureFirst] <= 0 {
			t.Errorf("%+v", s)
		}
	}
}

// TestTarget: what serves ends with its context, and says why it cannot serve.
func TestTarget(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ServeTarget(over, "127.0.0.1:0", "127.0.0.1:0"); err != nil {
		t.Error(err)
	}
	if err := ServeTarget(t.Context(), "127.0.0.1:0", "nowhere"); err == nil {
		t.Error("it serves nowhere")
	}
	if err := ServeTarget(t.Context(), "nowhere", "127.0.0.1:0"); err == nil {
		t.Error("it sends back nowhere")
	}
}
