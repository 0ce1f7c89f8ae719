package deploy

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/chivenet/chive/internal/fault"
)

// TestCompose: the loader of docker compose, which has the published schema, takes the file; and each container has what it
// needs and no more.
func TestCompose(t *testing.T) {
	for _, doc := range []string{string(shipped), sevenNodes(""), oddNames()} {
		dir, _ := exportInto(t, doc, (*Export).Compose)
		inv, err := Parse("x.toml", []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, ComposeName)
		p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{WorkingDir: dir, ConfigFiles: []types.ConfigFile{{Filename: file}}})
		if err != nil {
			t.Fatal(err)
		}
		if p.Name != "chive-"+inv.Name || len(p.Services) != 8 || len(p.Volumes) != 7 {
			t.Errorf("%s: %d services, %d volumes", p.Name, len(p.Services), len(p.Volumes))
		}
		net := p.Networks[composeNet]
		subnet := netip.MustParsePrefix(net.Ipam.Config[0].Subnet)
		gateway := netip.MustParseAddr(net.Ipam.Config[0].Gateway)
		if !net.Internal || !subnet.Contains(gateway) {
			t.Errorf("%+v", net)
		}
		for name, s := range p.Services {
			if s.User != "65532:65532" || !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.CapAdd) > 0 || s.Privileged ||
				!slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) || s.Deploy.Resources.Limits.MemoryBytes == 0 || len(s.Ports) > 0 {
				t.Errorf("%s: %+v", name, s)
			}
		}
		for i := range inv.Nodes {
			n := &inv.Nodes[i]
			s, ok := p.Services[n.Name]
			if !ok || s.Networks[composeNet].Ipv4Address != n.Address.String() || n.Address == gateway || !subnet.Contains(n.Address) {
				t.Fatalf("%s: %v", n.Name, s.Networks)
			}
			if (s.Restart == "no") != (n.Role == Client) || (s.HealthCheck == nil) != (n.Role == Client) || s.Command[0] != inv.Command(n, "")[0] {
				t.Errorf("%s: %s %v %v", n.Name, s.Restart, s.HealthCheck, s.Command)
			}
			for _, v := range s.Volumes { // no node sees the keys of another one
				if v.Source != n.Name && !(v.Source == networkVolume && v.ReadOnly) {
					t.Errorf("%s has %+v", n.Name, v)
				}
			}
		}
		if waits := p.Services[inv.Node(Client).Name].DependsOn; len(waits) != 6 {
			t.Error("the client waits for", waits)
		}
	}
}

// TestComposeBroken: the judge sees what is wrong.
func TestComposeBroken(t *testing.T) {
	dir, _ := exportInto(t, sevenNodes(""), (*Export).Compose)
	doc, err := os.ReadFile(filepath.Join(dir, ComposeName))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ was, is string }{
		{"read_only: true", "read_onli: true"}, {"memory: 256M", "memory: [1]"}, {"condition: service_healthy", "condition: well"},
		{"ipv4_address", "ipv5_address"}, {"interval: 10s", "interval: soon"}, {"internal: true", "internal: {}"}, {"source: directory", "source: director"}, {"ipv4_address: ", "ipv4_address: [] #"},
	} {
		broken := bytes.Replace(doc, []byte(c.was), []byte(c.is), 1)
		if bytes.Equal(broken, doc) {
			t.Fatal("nothing changed:", c.was)
		}
		_, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{WorkingDir: dir, ConfigFiles: []types.ConfigFile{{Filename: "x.yaml", Content: broken}}})
		if err == nil {
			t.Error("taken:", c.is)
		}
	}
}

// TestComposeNetwork: nodes are inside of the network, and the machine's own address is no node's.
func TestComposeNetwork(t *testing.T) {
	with := func(addrs ...string) string {
		doc := sevenNodes("")
		for i, a := range addrs {
			old := `address = "10.29.0.` + string(rune('1'+i)) + `"`
			if !strings.Contains(doc, old) {
				t.Fatal(old)
			}
			doc = strings.Replace(doc, old, `address = "`+a+`"`, 1)
		}
		return doc
	}
	for _, c := range []struct{ doc, subnet, gateway string }{
		{with(), "10.29.0.0/28", "10.29.0.14"}, // one of /29 would have the seventh at its end
		{with("10.29.0.14"), "10.29.0.0/28", "10.29.0.13"},
		{with("10.29.0.16"), "10.29.0.0/27", "10.29.0.30"},
		{with("10.29.0.0"), "10.28.0.0/15", ""}, // the first address of each smaller one
		{with("10.29.200.1"), "10.29.0.0/16", "10.29.255.254"},
		{with("10.30.0.1"), "", ""},
		{with("192.168.0.1"), "", ""},
	} {
		inv, err := Parse("x.toml", []byte(c.doc))
		if err != nil {
			t.Fatal(err)
		}
		got, err := inv.composeNetwork()
		if c.gateway == "" {
			if !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "x.toml") {
				t.Error(got, err)
			}
			continue
		}
		if err != nil || got[0].value != c.subnet || got[1].value != c.gateway {
			t.Error(got, err, "not", c.subnet)
		}
	}
}
