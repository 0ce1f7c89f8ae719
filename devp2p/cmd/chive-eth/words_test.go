package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/program/programtest"
)

func fresh(...string) *cobra.Command { return rootCommand() }

// TestWords: each flag that has a few words lists them, suggests one, and completes them.
func TestWords(t *testing.T) { programtest.Words(t, fresh, 2) }

// TestCompletion: a shell completes the values of all flags.
func TestCompletion(t *testing.T) {
	count := programtest.Completion(t, fresh)
	if count["words"] < 2 || count["files"] < 5 || count["directories"] < 3 || count["extensions"] < 2 || count["nothing"] < 20 {
		t.Errorf("only these flags complete something: %v", count)
	}
}

// TestManual: groff and mandoc read the manual pages without a word.
func TestManual(t *testing.T) {
	if pages := programtest.Manual(t, rootCommand()); pages["chive-eth.1"] == nil || pages["chive-eth-relay.1"] == nil || len(pages) != 13 {
		t.Errorf("%d pages", len(pages))
	}
}

// TestMistakes gives each flag of the relay, the sidecar and the status bad values, and reads what
// the command says.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Chdir(dir)
	network := filepath.Join(dir, "tor.toml")
	if err := os.WriteFile(network, []byte(torNetwork), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, c := range []struct {
		name string
		with programtest.With
	}{
		{"relay", programtest.With{Flags: []string{"--policy", "clearnet", "--data-dir", "data"}, Later: []string{"tor-proxy", "tor-control", "tor-password-file"}}},
		{"sidecar", programtest.With{Flags: []string{"--ipc", "node.ipc", "--network", network, "--data-dir", "data"}}},
		{"status", programtest.With{}},
		{"key new", programtest.With{}},
	} {
		bad := programtest.Bad(t, t.TempDir())
		bad["NODE"] = append(bad["FILE"], "enode://x", "enr:x")
		bad["NETWORK"] = bad["FILE"]
		seen += programtest.Mistakes(t, fresh, strings.Fields(c.name), c.with, bad)
	}
	if seen < 80 {
		t.Errorf("only %d mistakes were found", seen)
	}
}

// torNetwork is a network file with an authority that is not there.
const torNetwork = `name = "none"

[[authority]]
nickname = "authority0"
v3ident = "AF50E2FE0D75C2E525A5627B5CF11F188E09C6C6"
rsa = "E9233B1A729FDB0A68F57DC765CA2D4252F44313"
ed25519 = "D+bFnf+J72hTvNuxTaV6GrmdyIeubG5EfV9vvYTTKj4"
orport = ["127.0.0.1:1"]
dirport = "127.0.0.1:2"

[testing]
allow_private_addresses = true
`
