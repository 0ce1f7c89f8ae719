package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/command/commandtest"
	"github.com/chivenet/chive/internal/hsservice"
)

// TestMistakes gives each flag and each argument of each command bad values, and reads what the
// command says.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HOME", dir)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	network := filepath.Join(dir, "net.toml")
	if err := os.WriteFile(network, fmt.Appendf(nil, oneAuthority, authorityKeys), 0o600); err != nil {
		t.Fatal(err)
	}
	services := filepath.Join(dir, "onions.toml")
	if err := os.WriteFile(services, []byte("[[onion]]\nkey-dir = 'key'\nport = ['80']\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "key")
	cert, err := commandtest.Run(t, Chive("fte"), "fte", "keygen", key)
	if err != nil {
		t.Fatal(err)
	}
	torrc := filepath.Join(dir, "torrc")
	if err := os.WriteFile(torrc, []byte("DirAuthority a orport=1 v3ident=AF50E2FE0D75C2E525A5627B5CF11F188E09C6C6 127.0.0.1:2 E9233B1A729FDB0A68F57DC765CA2D4252F44313\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	service := func() []string { // with a client
		at := t.TempDir()
		if _, err := hsservice.OpenKey(at); err != nil {
			t.Fatal(err)
		}
		if _, err := hsservice.AddClient(at, "bob", "", func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
		return []string{at, "alice"}
	}
	// What each command needs besides the flag that is wrong.
	flags := func(all ...string) commandtest.With { return commandtest.With{Flags: all} }
	with := map[string][]commandtest.With{
		"config check":       {flags("--network", network)},
		"config check onion": {{Flags: []string{"--network", network, "--config", services}, Later: []string{"key-dir"}}},
		"config check relay": {
			flags("--network", network, "--orport", "192.0.2.1:9001", "--nickname", "mine"),
			flags("--network", network, "--orport", "192.0.2.1:9001", "--bridge"),
		},
		"config check authority": {flags("--network", network, "--data-dir", "authority", "--nickname", "mine", "--orport", "127.0.0.1:1", "--dirport", "127.0.0.1:2")},
		"get":                    {{Flags: []string{"--network", network}, Args: []string{"http://127.0.0.1:1/"}}},
		"fte": {
			flags("--client-port", "0"), flags("--mode", "server", "--server-port", "0"),
			flags("--protocol", "chive", "--client-port", "0", "--cert", strings.TrimSpace(cert), "--http"),
			flags("--protocol", "chive", "--mode", "server", "--server-port", "0", "--key-file", key),
		},
		"network import":       {{Args: []string{torrc}}},
		"config import":        {{Args: []string{torrc}, Later: []string{"out"}}}, // any name is good there
		"keys certify":         {flags("--address", "192.0.2.1:9030")},
		"onion clients add":    {{Fresh: service}},
		"onion clients list":   {{Fresh: func() []string { return service()[:1] }}},
		"onion clients remove": {{Fresh: service}},
		"onion serve":          {{Flags: []string{"--network", network, "--key-dir", filepath.Join(dir, "serves")}, Args: []string{"80=127.0.0.1:1"}}},
		"exec": {
			{Flags: []string{"--network", network}, Args: []string{"true"}},
			{Flags: []string{"--network", network, "--no-namespace"}, Args: []string{"true"}},
		},
	}
	seen := 0
	commandtest.Each(Chive(), func(c *cobra.Command, path []string) {
		all := with[strings.Join(path, " ")]
		if all == nil {
			all = []commandtest.With{{}}
		}
		for _, w := range all {
			seen += commandtest.Values(t, Chive, path, w, commandtest.Bad(t, t.TempDir()))
		}
	})
	if seen < 1000 {
		t.Errorf("only %d mistakes were found", seen)
	}
}

// oneAuthority is a network file with an authority that is not there, and some's keys.
const oneAuthority = `name = "none"

[[authority]]
nickname = "authority0"
%s
orport = ["127.0.0.1:1"]
dirport = "127.0.0.1:2"

[testing]
allow_private_addresses = true
enforce_distinct_subnets = false
`

const authorityKeys = `v3ident = "AF50E2FE0D75C2E525A5627B5CF11F188E09C6C6"
rsa = "E9233B1A729FDB0A68F57DC765CA2D4252F44313"
ed25519 = "D+bFnf+J72hTvNuxTaV6GrmdyIeubG5EfV9vvYTTKj4"`
