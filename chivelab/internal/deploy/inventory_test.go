package deploy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// sevenNodes is an inventory of seven nodes.
func sevenNodes(top string) string {
	var b strings.Builder
	b.WriteString(top + "\n[[link]]\nname = \"radio\"\ndelay = \"3ms\"\n")
	for i, r := range Roles {
		fmt.Fprintf(&b, "[[node]]\nrole = %q\naddress = \"10.29.0.%d\"\nlink = \"radio\"\n", r, i+1)
	}
	return b.String()
}

func TestParse(t *testing.T) {
	inv, err := Parse("seven.toml", []byte(sevenNodes("name = \"net\"\ncircuits = 7\nevery = 2\nhandshakes = [\"pq768\"]")))
	if err != nil {
		t.Fatal(err)
	}
	n := inv.Node(Guard)
	if inv.Name != "net" || inv.Circuits != 7 || inv.Every != 2 || len(inv.Handshakes) != 1 || len(inv.Nodes) != 7 || n.Name != "guard" || n.Access.Up.Rules.Delay != 3e6 {
		t.Errorf("%+v", inv)
	}
	inv, err = Parse("seven.toml", []byte(sevenNodes("")))
	if err != nil || inv.Circuits != 120 || strings.Join(inv.Handshakes, " ") != "ntor-v3 pq512 pq768 pq1024" {
		t.Errorf("%+v, %v", inv, err)
	}
}

// TestMistakes: a mistake is an error that names the file and the line.
func TestMistakes(t *testing.T) {
	good := sevenNodes("seed = 1")
	for _, c := range []struct{ was, is, want string }{
		{"seed = 1", "seed = -1", "x.toml:1: seed"},
		{"seed = 1", "seeds = 1", `x.toml:1: unknown key "seeds"; did you mean "seed"?`},
		{"seed = 1", "circuits = 0", "x.toml:1: circuits"},
		{"seed = 1", `circuits = "1"`, "x.toml:1: circuits"},
		{"seed = 1", "every = 0", "x.toml:1: every"},
		{"seed = 1", "name = 'A b'", "x.toml:1: name"},
		{"seed = 1", "handshakes = []", "x.toml:1: handshakes"},
		{"seed = 1", "handshakes = ['pq999']", "x.toml:1: handshakes"},
		{"seed = 1", "handshakes = ['pq768', 'pq768']", "x.toml:1: handshakes: \"pq768\" is there twice"},
		{"delay = \"3ms\"", "delay = \"3\"", "x.toml:4: link 1: delay"},
		{`role = "guard"`, `role = "guards"`, "x.toml:10: node 2: role"},
		{`role = "guard"`, `role = "middle"`, "x.toml:14: node 3: role: two nodes"},
		{`role = "guard"`, `roles = "guard"`, `x.toml:10: node 2: unknown key "roles"`},
		{`role = "guard"`, "role = \"guard\"\nname = \"-x\"", "x.toml:11: node 2: name"},
		{`role = "guard"`, "role = \"guard\"\nname = \"directory\"", "x.toml:11: node 2: name: two nodes"},
		{`address = "10.29.0.2"`, `address = "10.29.0"`, "x.toml:11: node 2: address"},
		{`address = "10.29.0.2"`, `address = "::1"`, "x.toml:11: node 2: address"},
		{`address = "10.29.0.2"`, `address = "127.0.0.1"`, "x.toml:11: node 2: address"},
		{`address = "10.29.0.2"`, `address = "10.29.0.1"`, "x.toml:11: node 2: address: two nodes"},
		{`address = "10.29.0.2"`, ``, "x.toml:10: node 2: address"},
	} {
		doc := strings.Replace(good, c.was, c.is, 1)
		if doc == good {
			t.Fatal("nothing changed:", c.was)
		}
		if _, err := Parse("x.toml", []byte(doc)); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %s", c.is, err, c.want)
		}
	}
	doc, _, _ := strings.Cut(good, "[[node]]\nrole = \"client\"")
	if _, err := Parse("x.toml", []byte(doc)); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "role client") {
		t.Error("an inventory without a client:", err)
	}
	for _, doc := range []string{"node = 1", "node = [1]", "link = 1", "[[node]]\nlink = 'nowhere'\nrole='guard'\naddress='10.0.0.1'", "x = "} {
		if _, err := Parse("x.toml", []byte(doc)); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "x.toml:1") && !strings.Contains(err.Error(), "x.toml:2") {
			t.Errorf("%s: %v", doc, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sevenNodes("")))
	f.Fuzz(func(t *testing.T, doc []byte) {
		inv, err := Parse("x.toml", doc)
		if err != nil {
			return
		}
		for i := range inv.Nodes { // what programs are told can be made of all that is accepted
			if len(inv.Command(&inv.Nodes[i], "/d")) == 0 {
				t.Error("no command")
			}
		}
	})
}
