package shadow

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/internal/netfile"
)

// linked writes the head of a program that has a dynamic linker, or has none.
func linked(t *testing.T, dynamic bool) string {
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	p := elf.Prog64{Type: uint32(elf.PT_LOAD)}
	if dynamic {
		p.Type = uint32(elf.PT_INTERP)
	}
	var b bytes.Buffer
	for _, part := range []any{h, p} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, b.Bytes(), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

const head = `seed = 7
repetitions = 2
downloads = 1
directories = 1
size = 1000
`

const nodes = `
[[link]]
name = "radio"
direction = "up"
rate = "2M"
delay = "7ms"
loss = 0.05

[[place]]
name = "field"
link = "radio"

[[node]]
name = "me"
role = "client"
place = "field"

[[node]]
name = "guard"
role = "relay"
place = "field"

[[node]]
name = "exit"
role = "exit"
`

func parse(t *testing.T, text string) *experiment.File {
	t.Helper()
	f, err := experiment.Parse("field.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func export(t *testing.T, text string) *Export {
	return &Export{File: parse(t, text), Out: filepath.Join(t.TempDir(), "out"), Relays: Chive, Clients: Chive, Pause: time.Minute,
		Lab: linked(t, true), Tor: linked(t, true)}
}

const ntor = head + "handshakes = [\"ntor-v3\"]\npath = [\"guard\", \"exit\"]\n" + nodes

// TestExport: the simulator gets each node with its link and its keys, and what a network needs beside.
func TestExport(t *testing.T) {
	x := export(t, ntor)
	x.Users = 2
	got, err := x.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(x.Out, configName))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		General struct {
			StopTime string `yaml:"stop_time"`
			Seed     int
			Template string `yaml:"template_directory"`
		}
		Network struct{ Graph struct{ Type, Inline string } }
		Hosts   map[string]struct {
			Node      int    `yaml:"network_node_id"`
			Addr      string `yaml:"ip_addr"`
			Up        string `yaml:"bandwidth_up"`
			Down      string `yaml:"bandwidth_down"`
			Processes []struct {
				Path  string
				Args  []string
				Start string `yaml:"start_time"`
			}
		}
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	// me, guard, exit; three authorities; another relay; the server; two clients.
	if len(c.Hosts) != 10 || got.Hosts != len(c.Hosts) || c.General.Seed != 7 || c.General.Template != templateDir || c.Network.Graph.Type != "gml" {
		t.Errorf("%d hosts, %+v, graph %s", len(c.Hosts), c.General, c.Network.Graph.Type)
	}
	if want := fmt.Sprintf("%d s", int(got.Stop.Seconds())); c.General.StopTime != want || got.Stop < loadAt {
		t.Errorf("it ends at %s, not %s", c.General.StopTime, want)
	}
	addrs := map[string]bool{}
	for name, h := range c.Hosts {
		addrs[h.Addr] = true
		up := "10000000000 bit"
		if slices.Contains([]string{"measuring", "relay0", "user0", "user1"}, name) {
			up = "2000000 bit"
		}
		if h.Up != up || h.Down != "10000000000 bit" {
			t.Errorf("%s: up %s, down %s", name, h.Up, h.Down)
		}
		if (h.Node == 0) != (up == "2000000 bit") {
			t.Errorf("%s is at node %d of the graph", name, h.Node)
		}
	}
	if len(addrs) != len(c.Hosts) {
		t.Errorf("%d hosts have %d addresses", len(c.Hosts), len(addrs))
	}
	// Only the way up takes time, and loses.
	g := strings.Join(strings.Fields(c.Network.Graph.Inline), " ")
	for _, edge := range []string{
		`source 0 target 0 latency "7000000 ns" packet_loss 0.050000000`, `source 0 target 1 latency "7000000 ns" packet_loss 0.050000000`,
		`source 1 target 0 latency "100000 ns" packet_loss 0.000000000`, `source 1 target 1 latency "100000 ns" packet_loss 0.000000000`,
	} {
		if !strings.Contains(g, edge) {
			t.Errorf("the graph lacks %s:\n%s", edge, g)
		}
	}
	if p := c.Hosts["exit0"].Processes; len(p) != 2 || p[0].Args[0] != "relay" || !slices.Contains(p[0].Args, "--exit-private") || p[1].Args[2] != "target" {
		t.Errorf("the exit runs %+v", p)
	}
	if p := c.Hosts["measuring"].Processes; len(p) != 1 || !slices.Contains(p[0].Args, "relay0,exit0") {
		t.Errorf("the client runs %+v", p)
	}
	net, err := os.ReadFile(filepath.Join(x.Out, in(networkName)))
	if err != nil {
		t.Fatal(err)
	}
	n, err := netfile.Parse("network", net)
	if err != nil || len(n.Authorities) != 3 {
		t.Fatalf("the network: %+v, %v", n, err)
	}
	k, err := authority.LoadKeys(filepath.Join(x.Out, templateDir, hostsDir, "authority1", stateDir, "keys"))
	if err != nil || k.RSA != n.Authorities[1].RSA.String() || k.V3Ident != n.Authorities[1].V3Ident.String() {
		t.Errorf("authority1 has the keys %+v, and the network says %+v: %v", k, n.Authorities[1], err)
	}
	weights, err := os.ReadFile(filepath.Join(x.Out, in(weightsName)))
	if err != nil || !strings.Contains(string(weights), " bw=250 nick=relay0\n") || strings.Count(string(weights), "node_id=$") != 3 {
		t.Errorf("%s, %v", weights, err)
	}
	if _, err := x.Do(t.Context()); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second export: %v", err)
	}
}

// TestExportTor: nodes of C tor have a torrc each, with all authorities.
func TestExportTor(t *testing.T) {
	x := export(t, ntor)
	x.Users, x.Relays, x.Clients = 1, Tor, Tor
	if _, err := x.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"authority0": "V3AuthoritativeDirectory 1", "relay0": "ExitRelay 0", "exit0": "ExitPolicyRejectPrivate 0", "user0": "SocksPort " + proxyAt,
	} {
		text, err := os.ReadFile(filepath.Join(x.Out, templateDir, hostsDir, name, torrcName))
		if err != nil || !strings.Contains(string(text), want+"\n") || strings.Count(string(text), "\nDirAuthority ") != 3 {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// TestExportRefuses: what the simulator cannot do is an error that names the place, and leaves nothing.
func TestExportRefuses(t *testing.T) {
	change := func(from, to string) string { return strings.Replace(ntor, from, to, 1) }
	for want, x := range map[string]*Export{
		"field.toml:15: link \"radio\": Shadow knows rate, delay and loss of a link, and no jitter": export(t, change("loss = 0.05", "loss = 0.05\njitter = \"normal\"\nspread = \"1ms\"")),
		"field.toml:15: link \"radio\": Shadow knows rate, delay and loss of a link, and no queue":  export(t, change("loss = 0.05", "loss = 0.05\nqueue = 64000")),
		"and no burst-to-bad": export(t, change("loss = 0.05", "burst-to-bad = 0.1\nburst-to-good = 0.2\nburst-loss-bad = 0.5")),
		"and no mtu":          export(t, change("loss = 0.05", "mtu = 1400")),
		"--clients: -1 ":      {Users: -1, Pause: time.Second},
		"--pause: 0s ":        {},
		"--stop: -1s ":        {Stop: -time.Second, Pause: time.Second},
		"field.toml:6: handshakes: relays of C tor": export(t, change("\"ntor-v3\"", "\"ntor-v3\", \"pq768\"")),
		"is not dynamically linked":                 export(t, ntor),
		"Shadow runs programs of Linux":             export(t, ntor),
	} {
		switch {
		case strings.Contains(want, "C tor"):
			x.Relays = Tor
		case strings.Contains(want, "dynamically"):
			x.Chive = linked(t, false)
		case strings.Contains(want, "Linux"):
			x.Lab = "shadow_test.go"
		}
		if _, err := x.Do(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v instead of %q", err, want)
		}
		if x.Out == "" {
			continue
		}
		if _, err := os.Lstat(x.Out); err == nil {
			t.Errorf("%q left %s", want, x.Out)
		}
	}
}
