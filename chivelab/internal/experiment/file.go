package experiment

import (
	"fmt"
	"slices"

	"github.com/chivenet/chive/chivelab/internal/benchcirc"
	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/tomlfile"
)

// File is what an experiment's file says.
type File struct {
	Name        string // of the file
	Text        []byte
	Title       string
	Seed        uint64
	Repetitions int // circuits with each handshake
	Downloads   int // of Size bytes with each handshake
	Size        int64
	Directories int    // how often the directory is fetched
	Load        int    // downloads that go on beside all else
	Program     string // of authorities, relays and exits that say no other
	Handshakes  []Handshake
	Path        []string // names of nodes, the nearest first
	Links       []links.Named
	Places      []Place
	Nodes       []Node
}

// Handshake is how the hops of a circuit are made.
type Handshake struct{ Name, Carriage string }

// String is how a file writes it: "pq768", or "pq768-B" with a carriage.
func (h Handshake) String() string {
	if h.Carriage == "" || h.Carriage == "A" {
		return h.Name
	}
	return h.Name + "-" + h.Carriage
}

// Place is where nodes are: each of them has a link like this.
type Place struct{ Name, Link string }

// Node is one node.
type Node struct {
	Name, Role, Place string
	Program           string // empty: the file's
}

// Roles of nodes.
const (
	RoleClient    = "client"
	RoleRelay     = "relay"
	RoleExit      = "exit"
	RoleAuthority = "authority"
)

// Bounds of a file's numbers.
const (
	maxRepetitions = 1_000_000
	maxSize        = 1 << 30
	maxLoad        = 64
	maxNodes       = 2000 // of a simulator: what a process can hold, package lab says
)

// Defaults of a file's numbers.
const (
	defaultRepetitions = 300
	defaultSize        = 200_000
)

// known are the keys of a file, and of its tables.
var (
	known      = []string{"title", "seed", "repetitions", "downloads", "size", "directories", "load", "program", "handshakes", "path", "link", "place", "node"}
	placeKeys  = []string{"name", "link"}
	nodeKeys   = []string{"name", "role", "place", "program"}
	knownRoles = []string{RoleClient, RoleRelay, RoleExit, RoleAuthority}
)

// Parse reads an experiment's file. Errors name the file and the line.
func Parse(name string, doc []byte) (*File, error) {
	entries, err := tomlfile.Entries(name, doc)
	if err != nil {
		return nil, err
	}
	f := &File{Name: name, Text: doc, Repetitions: defaultRepetitions, Size: defaultSize, Program: ProgramChive}
	lines := map[string]tomlfile.Entry{}
	for _, e := range entries {
		lines[e.Key] = e
		if e.Key == "link" {
			if f.Links, err = links.ParseTables(name, e); err != nil {
				return nil, err
			}
			continue
		}
		if line, err := f.take(e); err != nil {
			return nil, fault.New(fault.Config, "%s:%d: %w", name, line, err)
		}
	}
	if at, err := f.check(); err != nil {
		e, ok := lines[at.key]
		if !ok {
			return nil, fault.New(fault.Config, "%s: %w", name, err)
		}
		line := 0
		if at.sub != "" {
			line = e.LineIn(at.table, at.sub)
		}
		if line == 0 {
			line = e.Line()
		}
		return nil, fault.New(fault.Config, "%s:%d: %w", name, line, err)
	}
	return f, nil
}

// where is a place in a file: a key, and of a table that key's.
type where struct {
	key   string
	table int
	sub   string
}

// take takes over a key. An error comes with its line.
func (f *File) take(e tomlfile.Entry) (line int, err error) {
	whole := func(least, most int64) (int64, error) {
		n, ok := e.Value.(int64)
		if !ok || n < least || n > most {
			return 0, fault.New(fault.Config, "%s: %v is no number from %d to %d", e.Key, e.Value, least, most)
		}
		return n, nil
	}
	number := func(at *int, least, most int) error {
		n, err := whole(int64(least), int64(most))
		if err == nil {
			*at = int(n)
		}
		return err
	}
	switch e.Key {
	case "title":
		s, ok := e.Value.(string)
		if !ok {
			return e.Line(), fault.New(fault.Config, "title: %v is no text", e.Value)
		}
		f.Title = s
	case "seed":
		var n int64
		n, err = whole(0, 1<<40)
		f.Seed = uint64(n)
	case "repetitions":
		err = number(&f.Repetitions, 1, maxRepetitions)
	case "downloads":
		err = number(&f.Downloads, 0, maxRepetitions)
	case "directories":
		err = number(&f.Directories, 0, maxRepetitions)
	case "load":
		err = number(&f.Load, 0, maxLoad)
	case "size":
		var n int
		err = number(&n, 1, maxSize)
		f.Size = int64(n)
	case "program":
		f.Program = fmt.Sprint(e.Value)
		err = checkProgram(f.Program)
	case "handshakes":
		err = f.takeHandshakes(e.Value)
	case "path":
		f.Path, err = texts(e)
	case "place":
		return tables(e, placeKeys, func(t map[string]string) (string, error) {
			if slices.ContainsFunc(f.Places, func(p Place) bool { return p.Name == t["name"] }) {
				return "name", fault.New(fault.Config, "two places are called %q", t["name"])
			}
			f.Places = append(f.Places, Place{t["name"], t["link"]})
			return "", nil
		})
	case "node":
		return tables(e, nodeKeys, func(t map[string]string) (string, error) {
			switch {
			case !slices.Contains(knownRoles, t["role"]):
				return "role", fault.New(fault.Config, "role: %w", options.NotOneOf(t["role"], knownRoles))
			case slices.ContainsFunc(f.Nodes, func(n Node) bool { return n.Name == t["name"] }):
				return "name", fault.New(fault.Config, "two nodes are called %q", t["name"])
			case len(f.Nodes) == maxNodes:
				return "name", fault.New(fault.Config, "%d nodes are the most", maxNodes)
			}
			if p, said := t["program"]; said {
				if err := checkProgram(p); err != nil {
					return "program", err
				}
			}
			f.Nodes = append(f.Nodes, Node{t["name"], t["role"], t["place"], t["program"]})
			return "", nil
		})
	default:
		err = tomlfile.Unknown(e.Key, known)
	}
	if err != nil {
		return e.Line(), err
	}
	return 0, nil
}

func (f *File) takeHandshakes(v any) error {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return fault.New(fault.Config, `handshakes: %v is no list, as ["ntor-v3", "pq768", "pq768-B"]`, v)
	}
	for _, x := range list {
		s, ok := x.(string)
		if !ok {
			return fault.New(fault.Config, "handshakes: %v is no text", x)
		}
		h := Handshake{Name: s}
		if !slices.Contains(benchcirc.Handshakes(), s) { // a name may have a hyphen
			if i := len(s) - 2; i > 0 && s[i] == '-' {
				h = Handshake{s[:i], s[i+1:]}
			}
		}
		names := benchcirc.Handshakes()
		if !slices.Contains(names, h.Name) {
			return fault.New(fault.Config, "handshakes: %w", options.NotOneOf(s, names))
		}
		pq := handshake.Named(h.Name).Set.Valid()
		switch {
		case h.Carriage == "" && pq:
			h.Carriage = "A"
		case h.Carriage != "" && !pq:
			return fault.New(fault.Config, "handshakes: %s has no carriage", h.Name)
		case h.Carriage != "" && h.Carriage != "A" && h.Carriage != "B":
			return fault.New(fault.Config, "handshakes: %q is neither A nor B", h.Carriage)
		}
		if slices.Contains(f.Handshakes, h) {
			return fault.New(fault.Config, "handshakes: %v is there twice", h)
		}
		f.Handshakes = append(f.Handshakes, h)
	}
	return nil
}

// texts reads a list of texts.
func texts(e tomlfile.Entry) ([]string, error) {
	list, ok := e.Value.([]any)
	if !ok {
		return nil, fault.New(fault.Config, "%s: %v is no list of texts", e.Key, e.Value)
	}
	var out []string
	for _, x := range list {
		s, ok := x.(string)
		if !ok {
			return nil, fault.New(fault.Config, "%s: %v is no text", e.Key, x)
		}
		out = append(out, s)
	}
	return out, nil
}

// tables reads tables whose values are texts. take returns the key that is wrong.
func tables(e tomlfile.Entry, keys []string, take func(map[string]string) (string, error)) (line int, err error) {
	list, ok := e.Value.([]map[string]any)
	if !ok {
		if inline, is := e.Value.([]any); is {
			for _, x := range inline {
				t, is := x.(map[string]any)
				if !is {
					return e.Line(), fault.New(fault.Config, "%s is written as [[%s]]", e.Key, e.Key)
				}
				list = append(list, t)
			}
		} else {
			return e.Line(), fault.New(fault.Config, "%s is written as [[%s]]", e.Key, e.Key)
		}
	}
	for i, t := range list {
		texts, key, err := textsOf(t, keys)
		if err == nil {
			key, err = take(texts)
		}
		if err != nil {
			line := e.LineIn(i, key)
			if line == 0 { // it is missing
				line = max(e.LineIn(i, "name"), e.LineIn(i, keys[1]))
			}
			if line == 0 {
				line = e.Line()
			}
			return line, fmt.Errorf("%s %d: %w", e.Key, i+1, err)
		}
	}
	return 0, nil
}

func textsOf(t map[string]any, keys []string) (out map[string]string, key string, err error) {
	out = map[string]string{}
	for key, v := range t {
		if !slices.Contains(keys, key) {
			return nil, key, tomlfile.Unknown(key, keys)
		}
		s, ok := v.(string)
		if !ok {
			return nil, key, fault.New(fault.Config, "%s: %v is no text", key, v)
		}
		out[key] = s
	}
	if out["name"] == "" {
		return nil, "name", fault.New(fault.Config, "it has no name")
	}
	return out, "", nil
}

// check reports what does not fit together, and where that stands.
func (f *File) check() (at where, err error) {
	for i, p := range f.Places {
		if p.Link != "" && !slices.ContainsFunc(f.Links, func(l links.Named) bool { return l.Name == p.Link }) {
			return where{"place", i, "link"}, fault.New(fault.Config, "place %q: there is no link %q", p.Name, p.Link)
		}
	}
	count := map[string]int{}
	for i, n := range f.Nodes {
		count[n.Role]++
		if n.Place != "" && !slices.ContainsFunc(f.Places, func(p Place) bool { return p.Name == n.Place }) {
			return where{"node", i, "place"}, fault.New(fault.Config, "node %q: there is no place %q", n.Name, n.Place)
		}
	}
	if at, err := f.checkPrograms(); err != nil {
		return at, err
	}
	switch {
	case count[RoleClient] != 1:
		return where{"node", 0, "name"}, fault.New(fault.Config, "%d nodes have the role client: it is one that measures", count[RoleClient])
	case len(f.Handshakes) == 0:
		return where{}, fault.New(fault.Config, "it says no handshakes")
	case len(f.Path) == 0:
		return where{}, fault.New(fault.Config, "it says no path")
	}
	for i, name := range f.Path {
		n := f.node(name)
		switch last := i == len(f.Path)-1; {
		case n == nil:
			return where{key: "path"}, fault.New(fault.Config, "path: there is no node %q", name)
		case slices.Contains(f.Path[:i], name):
			return where{key: "path"}, fault.New(fault.Config, "path: %q is there twice", name)
		case n.Role != RoleRelay && n.Role != RoleExit:
			return where{key: "path"}, fault.New(fault.Config, "path: %q is no relay", name)
		case last && n.Role != RoleExit:
			return where{key: "path"}, fault.New(fault.Config, "path: %q is the last, and is no exit", name)
		}
	}
	for _, h := range f.Handshakes { // the number of hops, too
		if f.byTor() && handshake.Named(h.Name).Set.Valid() {
			return where{key: "handshakes"}, fault.New(fault.Config, "handshakes: relays of C tor know no %v, and one is in the path", h)
		}
		plan := benchcirc.Plan{Count: 1, Hops: len(f.Path), Handshake: h.Name, Carriage: h.Carriage}
		if err := plan.Check(); err != nil {
			return where{key: "path"}, err
		}
	}
	return where{}, nil
}

func (f *File) node(name string) *Node {
	i := slices.IndexFunc(f.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Nodes[i]
}

// layout returns what to start, and the links and the names of its nodes in package lab.
func (f *File) layout() (n nodes, access map[string]links.Access, named map[string]string) {
	access, named = map[string]links.Access{}, map[string]string{}
	for _, node := range f.Nodes {
		name := measuring
		switch node.Role {
		case RoleAuthority:
			name = fmt.Sprintf("authority%d", n.authorities)
			n.authorities++
		case RoleRelay:
			name = fmt.Sprintf("chiverelay%d", n.relays)
			n.relays++
		case RoleExit:
			name = fmt.Sprintf("chiveexit%d", n.exits)
			n.exits++
		}
		named[node.Name] = name
		access[name] = f.Access(node.Place)
	}
	// What a laboratory needs beside. These nodes are in no path.
	n.authorities = max(n.authorities, 1)
	n.relays = max(n.relays, 3-n.exits)
	return n, access, named
}

// Access is the link of the nodes at a place.
func (f *File) Access(place string) links.Access {
	for _, p := range f.Places {
		if p.Name != place {
			continue
		}
		for _, l := range f.Links {
			if l.Name == p.Link {
				return links.Access{Up: l.Up, Down: l.Down}
			}
		}
	}
	return links.Access{}
}

// At has an error name the file, and the line of a key.
func (f *File) At(key string, err error) error {
	return f.at(func(e tomlfile.Entry) int {
		if e.Key != key {
			return 0
		}
		return e.Line()
	}, err)
}

// AtLink is At for a key of the i-th link of Links, from 0.
func (f *File) AtLink(i int, key string, err error) error {
	return f.at(func(e tomlfile.Entry) (line int) {
		tables, _ := e.Value.([]map[string]any)
		if e.Key != "link" {
			return 0
		}
		for n, t := range tables { // one for each direction may be there
			if _, ok := t[key]; ok && t["name"] == f.Links[i].Name {
				line = e.LineIn(n, key)
			}
		}
		if line == 0 {
			line = e.Line()
		}
		return line
	}, err)
}

func (f *File) at(line func(tomlfile.Entry) int, err error) error {
	entries, bad := tomlfile.Entries(f.Name, f.Text)
	if bad != nil {
		return bad
	}
	for _, e := range entries {
		if n := line(e); n > 0 {
			return fault.New(fault.KindOf(err), "%s:%d: %w", f.Name, n, err)
		}
	}
	return fault.New(fault.KindOf(err), "%s: %w", f.Name, err)
}

// Shorten makes a sample of an experiment.
func (f *File) Shorten() {
	f.Repetitions, f.Downloads, f.Directories = min(f.Repetitions, 20), min(f.Downloads, 3), min(f.Directories, 5)
}
