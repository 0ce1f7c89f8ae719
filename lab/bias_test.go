package lab_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab"
)

// pathBias: no guard is blamed for circuits that the client itself ends. A circuit that is built as a leg of a conflux set
// does not count, as in C tor: its exit says when it ends.
func pathBias(t *testing.T, nw *lab.Network) {
	network, err := chive.LoadNetwork(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := chive.New(chive.Config{Network: network, DataDir: dir, Conflux: chive.SwitchOn, CircuitBuildTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	echo(t, ctx, client.DialContext, nw.Echo)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*", "guards.json"))
	if len(files) != 1 {
		t.Fatalf("guard files: %q", files)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var state struct {
		Sets map[string][]struct {
			Nickname string
			Bias     struct {
				Completed float64 `json:"circ_successes"`
				Closed    float64 `json:"closed_well"`
			}
		}
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		t.Fatal(err)
	}
	used := 0
	for _, g := range state.Sets["default"] {
		if g.Bias.Completed > 0 {
			used++
		}
		if g.Bias.Closed != g.Bias.Completed {
			t.Errorf("%s completed %v circuits, of which %v closed well", g.Nickname, g.Bias.Completed, g.Bias.Closed)
		}
	}
	if used != 1 {
		t.Errorf("%d guards completed circuits that count, and a set has one that was no leg at first", used)
	}
}
