package daemon

import (
	"path/filepath"
	"regexp"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/site"
)

// Onion is what an onion service is told besides its client's Config: its OnionConfig, to whose
// fields the table leads, and what is only a command's or a file's. KeyDir and Ports take the places of the
// fields of the OnionConfig with these names, which config fills in: another directory is another
// service, so that a reload may name one, and a port here has its target.
type Onion struct {
	chive.OnionConfig
	KeyDir      string   `reload:"live"`
	Ports       []string `reload:"live"` // "PORT=TARGET"
	Dir         string   `reload:"live"` // folder of files for dirPort; empty: none
	DirList     bool     `reload:"live"`
	DirDotFiles bool     `reload:"live"`
	HideAddress bool
}

// onionSection is the name of the tables of a file that are onion services.
const onionSection = "onion"

// onionTable is the options of an onion service.
var onionTable = options.Table{{Title: "Onion service", Options: []options.Option{
	{Key: "key-dir", Field: "KeyDir", Zero: "", Help: "`DIR` of the service's key, as C tor's HiddenServiceDir; it is made, with a new key, if it is missing"},
	{Key: "port", Field: "Ports", Each: onionPort, Help: "`PORT=TARGET`: where connections to a virtual port go: IP:PORT or unix:PATH; arguments of the command are more of them; of several targets of one port, each connection goes to one, at random"},
	{Key: "dir", Field: "Dir", Zero: "none", Help: "`FOLDER` whose files the service itself shows over HTTP at port 80, without a web server beside it; index.html stands for its directory"},
	{Key: "dir-list", Field: "DirList", Help: "show a list of the names in directories of --dir that have no index.html"},
	{Key: "dir-dot-files", Field: "DirDotFiles", Help: "show files and directories of --dir whose names begin with a dot, too"},
	{Key: "name", Field: "Name", Each: onionName, Zero: "its number", Help: "`NAME` of the service in lines, logs and metrics, which never have its address"},
	{Key: "hide-address", Field: "HideAddress", Help: "do not print the onion address: it is in the file hostname of the key's directory"},
	{Key: "introduction-points", Field: "IntroductionPoints", Default: "3", Bounds: options.Bounds{Lo: 1, Hi: hsservice.MaxPoints}, Help: "`NUMBER` of relays at which clients ask for the service"},
	{Key: "max-streams", Field: "MaxStreams", Bounds: options.Bounds{Lo: 0, Hi: 65535}, Zero: "a quarter of what the service has left", Help: "`NUMBER` of open connections that one client's circuit may have"},
	{Key: "max-streams-close-circuit", Field: "CloseCircuit", Help: "end the circuit of a client that opens more; without it, connections are refused"},
	{Key: "allow-unknown-ports", Field: "AllowUnknownPorts", Help: "keep the circuit of a client that asks for a port which the service does not have; without it, the circuit ends"},
	{Key: "export-circuit-id", Field: "ExportCircuitID", OneOf: []string{"", "haproxy"}, Help: "`PROTOCOL` haproxy: a target first gets a line of HAProxy's PROXY protocol with an address that stands for the client's circuit"},
	{Key: "intro-dos-defense", Field: "IntroDoSDefense", Help: "ask the introduction points to limit introductions; without it, the consensus decides"},
	{Key: "intro-dos-rate", Field: "IntroDoSRate", Default: "25", Bounds: options.Bounds{Lo: 1, Hi: 1<<31 - 1}, Help: "`NUMBER` of introductions a second that a point lets through"},
	{Key: "intro-dos-burst", Field: "IntroDoSBurst", Default: "200", Bounds: options.Bounds{Lo: 1, Hi: 1<<31 - 1}, Help: "`NUMBER` of introductions at once that a point lets through"},
	{Key: "pow-defense", Field: "PoWDefense", Help: "ask clients for proofs of work while more come than are answered, and answer those with the greatest effort first"},
	{Key: "pow-queue-rate", Field: "PoWQueueRate", Default: "250", Bounds: options.Bounds{Lo: 1, Hi: 1<<31 - 1}, Help: "`NUMBER` of clients a second that are answered with --pow-defense"},
	{Key: "pow-queue-burst", Field: "PoWQueueBurst", Default: "2500", Bounds: options.Bounds{Lo: 1, Hi: 1<<31 - 1}, Help: "`NUMBER` of clients at once that are answered with --pow-defense"},
	{Key: "single-onion", Field: "SingleOnion", OneOf: []string{"", chive.HostCanBeFound}, Help: "make the service faster and NOT ANONYMOUS, with one hop to relays, which learn this host's address: the `WORD` must be " + chive.HostCanBeFound},
	{Key: "master", Field: "Masters", Each: onionAddress, Help: "`ADDRESS` of a service of which this one is a backend (OnionBalance), besides those in the file ob_config of the key's directory"},
	{Key: "fleet", Field: "Fleet", Help: "other hosts have the same key and serve the same address at the same time"},
}}}

// Front is what a frontend is told besides its client's Config.
type Front struct {
	KeyDir      string
	Backends    []string
	Name        string
	HideAddress bool
}

// balanceTable is the options of a frontend.
var balanceTable = options.Table{{Title: "Frontend", Options: []options.Option{
	{Key: "key-dir", Field: "KeyDir", Zero: "", Help: "`DIR` of the service's key, as C tor's HiddenServiceDir; it is made, with a new key, if it is missing"},
	{Key: "backend", Field: "Backends", Each: onionAddress, Help: "`ADDRESS` of a service to which clients go; arguments of the command are more of them"},
	{Key: "name", Field: "Name", Each: onionName, Zero: "its number", Help: "`NAME` of the frontend in lines, logs and metrics, which never have its address"},
	{Key: "hide-address", Field: "HideAddress", Help: "do not print the onion address: it is in the file hostname of the key's directory"},
}}}

func onionAddress(s string) error {
	_, err := hsservice.ParsePeers("address", []string{s})
	return err
}

func onionPort(s string) error {
	_, _, err := hsservice.ParsePort(s)
	return err
}

var onionNames = regexp.MustCompile(`^[A-Za-z0-9._-]{1,32}$`)

// onionName refuses names that would not be a word of a line, and addresses, which are longer.
func onionName(s string) error {
	if !onionNames.MatchString(s) {
		return fault.New(fault.Config, "%q: a name has 1 to 32 letters, digits, dots, dashes and underscores", s)
	}
	return nil
}

// config returns the configuration of the service. more are ports besides its own.
func (o *Onion) config(more []string) (chive.OnionConfig, error) {
	c := o.OnionConfig
	c.KeyDir, c.Ports, c.Targets = o.KeyDir, []int{}, map[int]string{}
	if c.KeyDir == "" {
		return c, options.Wrong("KeyDir", "a directory for the service's key is needed")
	}
	if o.IntroDoSBurst < o.IntroDoSRate {
		return c, options.Wrong("IntroDoSBurst", "%d is less than the rate of %d", o.IntroDoSBurst, o.IntroDoSRate)
	}
	if o.PoWQueueBurst < o.PoWQueueRate {
		return c, options.Wrong("PoWQueueBurst", "%d is less than the rate of %d", o.PoWQueueBurst, o.PoWQueueRate)
	}
	for _, text := range append(append([]string(nil), o.Ports...), more...) {
		port, t, err := hsservice.ParsePort(text)
		if err != nil {
			return c, err
		}
		if c.Targets[int(port)] == "" {
			c.Targets[int(port)] = t.String()
			continue
		}
		if c.MoreTargets == nil {
			c.MoreTargets = map[int][]string{}
		}
		c.MoreTargets[int(port)] = append(c.MoreTargets[int(port)], t.String())
	}
	switch {
	case o.Dir != "" && c.Targets[dirPort] != "":
		return c, options.Wrong("Dir", "port %d is given a target, too", dirPort)
	case o.Dir != "":
		c.Ports = append(c.Ports, dirPort)
	case o.DirList || o.DirDotFiles:
		return c, options.Wrong("Dir", "dir-list and dir-dot-files are about a folder, and none is given")
	case len(c.Targets) == 0:
		return c, fault.New(fault.Config, "onion service: no port is given: say where connections go, such as 80=127.0.0.1:8080, or give --dir a folder of files")
	}
	return c, nil
}

// folder returns the folder of files that the service shows itself; nil: none.
func (o *Onion) folder() *folder {
	if o.Dir == "" {
		return nil
	}
	return &folder{o.Dir, site.Options{List: o.DirList, Dot: o.DirDotFiles}}
}

// config returns the configuration of a frontend. more are backends besides its own.
func (o *Front) config(more []string) (chive.OnionConfig, error) {
	c := chive.OnionConfig{Name: o.Name, KeyDir: o.KeyDir, Ports: []int{}, Backends: append(append([]string(nil), o.Backends...), more...)}
	if c.KeyDir == "" {
		return c, options.Wrong("KeyDir", "a directory for the service's key is needed")
	}
	if len(c.Backends) == 0 {
		return c, fault.New(fault.Config, "onion service: no backend is given: say to which addresses clients go")
	}
	_, err := hsservice.ParsePeers("backend", c.Backends)
	return c, err
}

// onionOptions is what a table says: *Onion or *Front.
type onionOptions interface {
	config(more []string) (chive.OnionConfig, error)
	hides() bool
	folder() *folder
}

func (o *Onion) hides() bool     { return o.HideAddress }
func (o *Front) hides() bool     { return o.HideAddress }
func (o *Front) folder() *folder { return nil }

// Onions are the onion services of a process, from the tables [[onion]] of its file, or,
// if front is set, its frontends.
type Onions struct {
	front  bool
	tables []onionOptions
}

func (o *Onions) table() options.Table {
	if o.front {
		return balanceTable
	}
	return onionTable
}

func (o *Onions) part() options.Part {
	return options.Part{Table: o.table(), Section: onionSection, Add: func() any {
		var one onionOptions = new(Onion)
		if o.front {
			one = new(Front)
		}
		o.tables = append(o.tables, one)
		return one
	}}
}

// hosting is one service that a process is told to host.
type hosting struct {
	chive.OnionConfig
	hide   bool // its address
	single bool // it is the only one, and has no name: lines name it by nothing
	folder *folder
}

// hostings checks all services and returns them. Each has a directory and a name of its own.
func (o *Onions) hostings() ([]hosting, error) {
	var out []hosting
	for i, one := range o.tables {
		err := o.table().Check(one)
		var cfg chive.OnionConfig
		if err == nil {
			cfg, err = one.config(nil)
		}
		if err != nil {
			return nil, o.table().ExplainIn(onionSection, i, err)
		}
		out = append(out, hosting{OnionConfig: cfg, hide: one.hides(), folder: one.folder()})
	}
	return out, different(out)
}

// checkPQ refuses services that cannot demand of their clients what the client's options do.
func checkPQ(c *chive.Config, all []hosting) error {
	for _, h := range all {
		if !c.RequireOnionPQ && c.PQ != chive.PQRequireAll {
			break
		}
		if err := hsservice.CheckPQ(h.Fleet || len(h.Backends) > 0, len(h.Masters) > 0); err != nil {
			return err
		}
	}
	return nil
}

// different refuses two services with one directory or name.
func different(all []hosting) error {
	dirs, names := map[string]bool{}, map[string]bool{}
	for _, h := range all {
		dir, err := filepath.Abs(h.KeyDir)
		switch {
		case err != nil:
			return fault.Wrap(fault.Local, err)
		case dirs[dir]:
			return fault.New(fault.Config, "two onion services have the key-dir %s", h.KeyDir)
		case h.Name != "" && names[h.Name]:
			return fault.New(fault.Config, "two onion services have the name %s", h.Name)
		}
		dirs[dir], names[h.Name] = true, true
	}
	return nil
}
