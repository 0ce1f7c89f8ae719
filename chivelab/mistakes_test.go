package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/deploy"
	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/chivelab/internal/wan"
	"github.com/chivenet/chive/internal/command/commandtest"
)

// TestWrongValues gives each flag of each command of the laboratory bad values, and reads what it
// says.
func TestWrongValues(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("%% nonsense", nil, 0o600); err != nil { // so that it is no name of a new directory
		t.Fatal(err)
	}
	with := map[string]commandtest.With{
		"up":                {Flags: []string{"--bridges", "1"}},
		"run":               {Flags: []string{"--bridges", "1"}},
		"bench circuit":     {Flags: []string{"--in-process", "--count", "1", "--hops", "1"}, Later: []string{"json", "plots"}},
		"bench wan compare": {Args: []string{compared(t), compared(t)}},
		"bench client":      {Flags: []string{"--beside-tor"}},

		"deploy":             {Args: []string{deploy.Shipped}, Later: []string{"out"}}, // which it makes
		"deploy figures":     {Args: []string{deployed(t)}},
		"shadow export":      {Args: []string{"leo"}, Flags: []string{"--relays", "tor"}},
		"shadow import":      {Args: []string{t.TempDir()}},
		"shadow sample":      {Args: []string{"/dev/null"}},
		"experiment run":     {Args: []string{"leo"}},
		"experiment figures": {Args: []string{begun(t)}},
		"experiment compare": {Args: []string{begun(t), begun(t)}},
	}
	seen := 0
	commandtest.Each(rootCommand(), func(c *cobra.Command, path []string) {
		n := commandtest.Values(t, fresh, path, with[strings.Join(path, " ")], commandtest.Bad(t, t.TempDir()))
		t.Logf("%s: %d", strings.Join(path, " "), n)
		seen += n
	})
	if seen < 400 {
		t.Errorf("only %d mistakes were found", seen)
	}
}

// begun is the directory of an experiment that has no samples yet.
func begun(t *testing.T) string {
	dir := t.TempDir()
	doc, err := experiment.ShippedText("leo")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		experiment.FileName: string(doc), experiment.StateName: "{}",
		experiment.SamplesName: "kind,handshake,repetition,session,late,failed,packets,packets_late_ms,packets_far,packets_overrun,total\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// compared is the directory of a comparison with one run, and no samples.
func compared(t *testing.T) string {
	dir := t.TempDir()
	plan, err := json.Marshal(map[string]wan.Plan{"plan": wan.Short()})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"state.json":    string(plan),
		wan.RunsName:    "run,seed,clients,relays,loss,session,late,packets,packets_late_ns,packets_worst_ns,packets_far,packets_overrun,busy,took_ns\n1,1,tor,tor,0,1,false,1,1,1,0,0,1,1\n",
		wan.SamplesName: "run,client,request,size,first_ms,total_ms,failed\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// deployed is a directory with the results of a deployment.
func deployed(t *testing.T) string {
	dir := t.TempDir()
	for name, text := range map[string]string{deploy.ReportName: `{"handshakes":[{"name":"ntor-v3"}]}`, deploy.MetricsName: "", deploy.SamplesName: ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
