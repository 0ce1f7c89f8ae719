package deploy

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/chivenet/chive/chivelab/internal/benchcirc"
	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/tomlfile"
)

// Role says what a machine does.
type Role string

// The roles. Each is there once.
const (
	Client    Role = "client"    // builds circuits, and measures
	Directory Role = "directory" // the authority
	Guard     Role = "guard"
	Middle    Role = "middle"
	Exit      Role = "exit"
	Target    Role = "target"  // sends back what comes out of circuits
	Monitor   Role = "monitor" // collects the metrics of all
)

// Roles are all roles, in the order in which they start.
var Roles = []Role{Directory, Guard, Middle, Exit, Target, Monitor, Client}

// Node is a machine of an inventory.
type Node struct {
	Name    string
	Role    Role
	Address netip.Addr // by which the others reach it
	Link    string     // in namespaces: the link that it is behind
	Access  links.Access
	Reach   Reach // by ssh
	Line    int   // of the inventory
}

// Inventory is what an inventory's file says.
type Inventory struct {
	File       string
	Name       string
	Seed       uint64
	Circuits   int // with each handshake
	Handshakes []string
	Every      int // seconds between two looks of the monitor
	Nodes      []Node
	KnownHosts string // file with the boards' host keys; "": ssh's own
}

// Bounds and defaults of an inventory.
const (
	maxCircuits     = 100_000
	maxEvery        = 3600
	maxName         = 32
	defaultCircuits = 120
)

// defaultHandshakes are those that are compared.
var defaultHandshakes = []string{"ntor-v3", "pq512", "pq768", "pq1024"}

// keys of an inventory and of its nodes.
var (
	topKeys  = []string{"name", "seed", "circuits", "handshakes", "every", "known_hosts", "link", "node"}
	nodeKeys = append([]string{"name", "role", "address", "link"}, reachKeys...)
)

// Parse reads an inventory. Errors name the file and the line.
func Parse(file string, doc []byte) (*Inventory, error) {
	entries, err := tomlfile.Entries(file, doc)
	if err != nil {
		return nil, err
	}
	inv := &Inventory{File: file, Name: "seven", Seed: 1, Circuits: defaultCircuits, Every: 1, Handshakes: slices.Clone(defaultHandshakes)}
	var named []links.Named
	var nodes tomlfile.Entry
	for _, e := range entries {
		at := func(line int, err error) error { return fault.New(fault.Config, "%s:%d: %w", file, line, err) }
		switch e.Key {
		case "link":
			if named, err = links.ParseTables(file, e); err != nil {
				return nil, err
			}
		case "node":
			nodes = e
			if line, err := inv.takeNodes(e); err != nil {
				return nil, at(line, err)
			}
		default:
			if err := inv.take(e); err != nil {
				return nil, at(e.Line(), err)
			}
		}
	}
	for i := range inv.Nodes {
		if key, err := inv.checkNode(i, named); err != nil {
			return nil, fault.New(fault.Config, "%s:%d: node %d: %w", file, lineOf(nodes, i, key), i+1, err)
		}
	}
	for _, r := range Roles {
		if inv.Node(r) == nil {
			return nil, fault.New(fault.Config, "%s: no node has the role %s", file, r)
		}
	}
	return inv, nil
}

// take takes over a key of the top.
func (inv *Inventory) take(e tomlfile.Entry) (err error) {
	switch e.Key {
	case "name":
		if inv.Name, err = text(e.Key, e.Value); err == nil && !plain(inv.Name) {
			err = fault.New(fault.Config, "name: %q is not 1 to %d of a to z, digits and dashes, with a letter first", inv.Name, maxName)
		}
	case "seed":
		var n int
		n, err = number(e, 0, 1<<30)
		inv.Seed = uint64(n)
	case "circuits":
		inv.Circuits, err = number(e, 1, maxCircuits)
	case "every":
		inv.Every, err = number(e, 1, maxEvery)
	case "known_hosts":
		if inv.KnownHosts, err = text(e.Key, e.Value); err == nil {
			inv.KnownHosts, err = inv.fileName(e.Key, inv.KnownHosts)
		}
	case "handshakes":
		list, ok := e.Value.([]any)
		if !ok || len(list) == 0 {
			return fault.New(fault.Config, "handshakes: %v is no list of names", e.Value)
		}
		inv.Handshakes = nil
		for _, v := range list {
			h, err := text(e.Key, v)
			switch {
			case err != nil:
				return err
			case !slices.Contains(benchcirc.Handshakes(), h):
				return fault.New(fault.Config, "handshakes: %w", options.NotOneOf(h, benchcirc.Handshakes()))
			case slices.Contains(inv.Handshakes, h):
				return fault.New(fault.Config, "handshakes: %q is there twice", h)
			}
			inv.Handshakes = append(inv.Handshakes, h)
		}
	default:
		return tomlfile.Unknown(e.Key, topKeys)
	}
	return err
}

// takeNodes reads the tables [[node]].
func (inv *Inventory) takeNodes(e tomlfile.Entry) (line int, err error) {
	list, ok := e.Value.([]map[string]any)
	if !ok || len(list) > len(Roles) {
		return e.Line(), fault.New(fault.Config, "nodes are written as [[node]], %d of them", len(Roles))
	}
	for i, t := range list {
		n := Node{Line: e.LineIn(i, "role")}
		for key, v := range t {
			if slices.Contains(reachKeys, key) {
				if err := n.Reach.take(inv, key, v); err != nil {
					return lineOf(e, i, key), fault.New(fault.Config, "node %d: %w", i+1, err)
				}
				continue
			}
			s, err := text(key, v)
			if err == nil {
				switch key {
				case "name":
					n.Name = s
				case "role":
					n.Role = Role(s)
				case "address":
					if n.Address, err = netip.ParseAddr(s); err != nil {
						err = fault.New(fault.Config, "address: %w", err)
					}
				case "link":
					n.Link = s
				default:
					err = tomlfile.Unknown(key, nodeKeys)
				}
			}
			if err != nil {
				return lineOf(e, i, key), fault.New(fault.Config, "node %d: %w", i+1, err)
			}
		}
		inv.Nodes = append(inv.Nodes, n)
	}
	return 0, nil
}

// checkNode checks a node, and returns the key that is wrong.
func (inv *Inventory) checkNode(i int, named []links.Named) (key string, err error) {
	n := &inv.Nodes[i]
	if n.Name == "" {
		n.Name = string(n.Role)
	}
	at := slices.IndexFunc(named, func(l links.Named) bool { return l.Name == n.Link })
	switch before := inv.Nodes[:i]; {
	case !slices.Contains(Roles, n.Role):
		return "role", fault.New(fault.Config, "role: %q is none of %v", n.Role, Roles)
	case slices.ContainsFunc(before, func(o Node) bool { return o.Role == n.Role }):
		return "role", fault.New(fault.Config, "role: two nodes have the role %s", n.Role)
	case !plain(n.Name):
		return "name", fault.New(fault.Config, "name: %q is not 1 to %d of a to z, digits and dashes, with a letter first", n.Name, maxName)
	case slices.ContainsFunc(before, func(o Node) bool { return o.Name == n.Name }):
		return "name", fault.New(fault.Config, "name: two nodes are called %s", n.Name)
	case !n.Address.Is4() || n.Address.IsUnspecified() || n.Address.IsMulticast() || n.Address.IsLoopback():
		return "address", fault.New(fault.Config, "address: it needs an IPv4 address of its own")
	case slices.ContainsFunc(before, func(o Node) bool { return o.Address == n.Address }):
		return "address", fault.New(fault.Config, "address: two nodes have %v", n.Address)
	case n.Link != "" && at < 0:
		return "link", fault.New(fault.Config, "link: there is no link %q", n.Link)
	}
	if at >= 0 {
		n.Access = links.Access{Up: named[at].Up, Down: named[at].Down}
	}
	return "", nil
}

// place names a node, and where the inventory has it.
func (inv *Inventory) place(n *Node) string {
	return fmt.Sprintf("%s:%d: %s", inv.File, n.Line, n.Name)
}

// Node returns the node with a role; nil: there is none.
func (inv *Inventory) Node(r Role) *Node {
	i := slices.IndexFunc(inv.Nodes, func(n Node) bool { return n.Role == r })
	if i < 0 {
		return nil
	}
	return &inv.Nodes[i]
}

// plain tells whether a name can stand in names of files, units and containers.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; !(c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '-' && i < len(s)-1)) {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

// lineOf is where a key of the i-th table stands, or the table if it is missing.
func lineOf(e tomlfile.Entry, i int, key string) int {
	for _, k := range append([]string{key}, nodeKeys...) {
		if line := e.LineIn(i, k); line > 0 {
			return line
		}
	}
	return e.Line()
}

func text(key string, v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fault.New(fault.Config, "%s: %v is no text", key, v)
	}
	return s, nil
}

func number(e tomlfile.Entry, least, most int) (int, error) {
	n, ok := e.Value.(int64)
	if !ok || n < int64(least) || n > int64(most) {
		return 0, fault.New(fault.Config, "%s: %v is no number from %d to %d", e.Key, e.Value, least, most)
	}
	return int(n), nil
}
