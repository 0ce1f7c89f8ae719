package tord

import (
	"bytes"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/socks"
	"github.com/chivenet/chive/internal/torrc"
)

// plan is what a configuration asks for, checked.
type plan struct {
	conf    conf
	dataDir string

	settings *daemon.Settings // of the client and its ports
	relay    *daemon.Settings // nil: none
	keyDir   string           // of the relay
	memory   shares           // if there is a relay
	given    *chive.Network   // what network describes
	network  string           // the lines that describe it; empty: the public one
	bridged  bool             // by bridges only
	offline  bool             // neither client nor ports

	ports    []controlPort
	portFile string // for ControlPortWriteToFile; empty: none
	secrets  control.Auth
	cookie   bool
	cookieAt string

	onionDirs []string // of services of the torrc
	findable  bool     // the services are not anonymous

	notes []string // what is not quite as in C tor
}

// controlPort is where controllers connect.
type controlPort struct {
	socks.Port
	open  bool           // a unix socket that other users may use
	list  string         // the file with what controllers may do; empty: all
	rules *control.Rules // what is in it
}

// planOf checks a configuration. It opens nothing.
func planOf(c conf) (*plan, error) {
	c.nameRelay()
	p := &plan{conf: c, offline: c.on("DisableNetwork"), bridged: c.on("UseBridges"), portFile: c.one("ControlPortWriteToFile"), cookie: c.on("CookieAuthentication")}
	if err := p.checkDaemon(); err != nil {
		return nil, err
	}
	for _, f := range []func() error{p.findDataDir, p.readNetwork, p.readPorts, p.readSingle, p.shareMemory, p.readSettings, p.readRelay, p.readSecrets} {
		if err := f(); err != nil {
			return nil, err
		}
	}
	for _, name := range c[skippedNames] {
		p.notes = append(p.notes, fmt.Sprintf("Skipping obsolete configuration option %q.", name))
	}
	for _, o := range allOptions() {
		if len(c[o.name]) > 0 && o.does == idle {
			p.notes = append(p.notes, o.name+": it has no effect here")
		}
	}
	return p, nil
}

func (p *plan) findDataDir() (err error) {
	dir := p.conf.one("DataDirectory")
	if dir == "" {
		dir, err = chive.DefaultDataDir()
	} else {
		dir, err = atHome(dir)
	}
	if err == nil {
		p.dataDir, err = filepath.Abs(dir)
	}
	return err
}

// networkOptions describe another network than the public one.
var networkOptions = []string{"DirAuthority", "EnforceDistinctSubnets", "FallbackDir", "TestingTorNetwork"}

func (p *plan) readNetwork() error {
	if len(p.conf["DirAuthority"]) == 0 {
		if p.conf.on("TestingTorNetwork") || len(p.conf["FallbackDir"]) > 0 || !p.conf.on("EnforceDistinctSubnets") {
			return fault.New(fault.Config, "TestingTorNetwork, FallbackDir and EnforceDistinctSubnets 0 need DirAuthority lines")
		}
		return nil
	}
	var b strings.Builder
	for _, name := range networkOptions {
		for _, v := range p.conf[name] {
			b.WriteString(name + " " + fileValue(v) + "\n")
		}
	}
	p.network = b.String()
	return nil
}

// readSettings makes Chive's settings of the options that it has too.
func (p *plan) readSettings() error {
	doc, err := torrc.Translate(p.lines(), torrc.Proxy)
	if err != nil {
		return err
	}
	kept := map[int]bool{}
	var toml bytes.Buffer
	for _, s := range doc.Settings {
		for _, l := range s.From {
			kept[l.Number] = true
		}
		fmt.Fprintf(&toml, "%s = %s\n", s.Key, daemon.TOMLValue(s, daemon.NewClientSettings))
	}
	if p.memory.client != 0 {
		fmt.Fprintf(&toml, "max-memory = %d\n", p.memory.client)
	}
	for _, service := range doc.Onions {
		for _, s := range service {
			for _, l := range s.From {
				kept[l.Number] = true
			}
		}
	}
	if err := p.writeOnions(&toml, doc.Onions); err != nil {
		return err
	}
	if err := p.takeNotes(doc.Notes, kept); err != nil {
		return err
	}
	p.settings = daemon.NewClientSettings()
	if err := p.settings.ReadFile("torrc", toml.Bytes()); err != nil {
		return err
	}
	if err := p.give(p.settings); err != nil {
		return err
	}
	return p.settings.Check()
}

// takeNotes refuses a line that is not obeyed, and notes what is not quite as in C tor. kept has the numbers of the lines that
// became settings.
func (p *plan) takeNotes(notes []torrc.Note, kept map[int]bool) error {
	for _, n := range notes {
		switch {
		case n.Same:
		case kept[n.Line.Number]:
			p.notes = append(p.notes, n.Line.Key+": "+n.Why)
		default:
			return fault.New(fault.Config, "%s is not obeyed, so it is refused: %s", n.Line.Key, n.Why)
		}
	}
	return nil
}

// give gives a role the network that the options describe.
func (p *plan) give(s *daemon.Settings) error {
	if p.network == "" {
		return nil
	}
	if p.given == nil {
		dir, err := netfile.ImportTorrc("torrc", "torrc", []byte(p.network))
		if err != nil {
			return err
		}
		text, err := netfile.Format(dir)
		if err != nil {
			return err
		}
		if p.given, err = chive.ParseNetwork(text); err != nil {
			return err
		}
	}
	s.SetNetwork(p.given)
	return nil
}

// lines returns what package torrc translates. Its line numbers tell the lines apart.
func (p *plan) lines() []torrc.Line {
	var out []torrc.Line
	put := func(key, value string) {
		out = append(out, torrc.Line{File: "torrc", Number: len(out) + 1, Key: key, Value: value})
	}
	put("DataDirectory", p.dataDir)
	needed := p.neededTransports()
	useBridges := p.conf.on("UseBridges")
	for _, o := range allOptions() {
		// C tor uses bridges only if it is told to, and Chive's file does if it has some.
		if o.does != translated || o.grouped() || o.name == "DataDirectory" || o.name == "Bridge" && !useBridges {
			continue
		}
		for _, v := range p.conf[o.name] {
			if o.name == "ClientTransportPlugin" && !needed(v) || o.name == "MaxMemInQueues" && p.memory.client != 0 {
				continue
			}
			if o.name == "MaxCircuitDirtiness" {
				v = p.bounded(o.name, v, minDirtiness, maxDirtiness)
			}
			put(o.name, v)
		}
	}
	services := p.conf.onionLines()
	for _, l := range services {
		put(l.Key, l.Value)
	}
	if p.findable && len(services) > 0 {
		put(singleHop, "1")
		put(nonAnonymous, "1")
	}
	for _, name := range clientPorts {
		if to, transient := strings.CutPrefix(name, "__"); transient {
			for _, v := range p.conf[name] {
				put(to, v)
			}
		}
	}
	if !p.conf.on("LearnCircuitBuildTimeout") && len(p.conf["CircuitBuildTimeout"]) == 0 {
		put("CircuitBuildTimeout", "60 seconds") // C tor's timeout if it does not learn one
	}
	return out
}

// neededTransports returns what reports whether a line of ClientTransportPlugin provides a transport of a bridge. C tor starts no
// other, and programs name some that are not there: OnionShare does. A line that cannot be read is needed, so that it is refused.
func (p *plan) neededTransports() func(line string) bool {
	used := map[string]bool{}
	if p.conf.on("UseBridges") {
		for _, v := range p.conf["Bridge"] {
			if b, err := pt.ParseBridgeLine(v); err == nil {
				used[b.Transport] = true
			}
		}
	}
	return func(line string) bool {
		l, err := pt.ParseTransportLine(line)
		return err != nil || slices.ContainsFunc(l.Transports, func(name string) bool { return used[name] })
	}
}

// Bounds of MaxCircuitDirtiness, in seconds. C tor has the same, and does not refuse what is outside.
const (
	minDirtiness = 10
	maxDirtiness = 30 * 24 * 3600
)

// bounded moves a number of seconds into bounds, and notes it.
func (p *plan) bounded(name, v string, least, most int) string {
	n, err := strconv.Atoi(v)
	if in := min(max(n, least), most); err == nil && in != n {
		p.notes = append(p.notes, fmt.Sprintf("%s %s: %d is used", name, v, in))
		v = strconv.Itoa(in)
	}
	return v
}

// clientPorts are the options of ports that lead to the network.
var clientPorts = []string{"SocksPort", "HTTPTunnelPort", "DNSPort", "TransPort", "__SocksPort", "__HTTPTunnelPort", "__DNSPort", "__TransPort"}

// readPorts reads the ports for controllers.
func (p *plan) readPorts() error {
	if p.conf.on("UseBridges") && len(p.conf["Bridge"]) == 0 {
		return fault.New(fault.Config, "If you set UseBridges, you must specify at least one bridge.")
	}
	for _, name := range clientPorts {
		for _, text := range p.conf[name] {
			if _, _, err := torrc.Port(text); err != nil {
				return fault.New(fault.Config, "Invalid %s configuration (%w)", strings.TrimPrefix(name, "__"), err)
			}
		}
	}
	for _, text := range slices.Concat(p.conf["ControlPort"], p.conf["__ControlPort"]) {
		if err := p.addPort(text); err != nil {
			return fault.New(fault.Config, "ControlPort: %w", err)
		}
	}
	for _, path := range p.conf["ControlSocket"] {
		if path == "0" {
			continue
		}
		if !strings.HasPrefix(path, "unix:") { // flags may stand after it, as after a ControlPort
			path = "unix:" + path
		}
		if p.conf.on("ControlSocketsGroupWritable") {
			path += " GroupWritable"
		}
		if err := p.addPort(path); err != nil {
			return fault.New(fault.Config, "ControlSocket: %w", err)
		}
	}
	return nil
}

// portWords are the flags of a ControlPort.
var portWords = []string{"GroupWritable", "WorldWritable", "RelaxDirModeCheck"}

func (p *plan) addPort(text string) error {
	addr, flags, err := torrc.Port(text)
	if err != nil || addr == "0" {
		return err
	}
	var list controlPort
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		addr = `unix:"` + path + `"`
	}
	for _, f := range flags {
		if path, ok := cutFold(f, daemon.AllowList); ok {
			if err := p.readList(&list, path); err != nil {
				return err
			}
			continue
		}
		if !slices.ContainsFunc(portWords, func(w string) bool { return strings.EqualFold(w, f) }) {
			return fault.New(fault.Config, "it has no flag %s", f)
		}
		if !strings.EqualFold(f, "RelaxDirModeCheck") { // Chive looks at the mode of the socket itself
			addr += " " + f
		}
	}
	port, err := socks.ParsePort(socks.SOCKSPort, addr)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(port.Addr, "unix:") {
		if ap, err := netip.ParseAddrPort(port.Addr); err == nil && !ap.Addr().IsLoopback() {
			return fault.New(fault.Config, "%s can be reached from other machines: give an address of loopback", port.Addr)
		}
	}
	list.Port, list.open = port, port.Mode&0o077 != 0
	p.ports = append(p.ports, list)
	return nil
}

func (p *plan) readSecrets() error {
	for _, name := range []string{"HashedControlPassword", "__HashedControlSessionPassword"} {
		for _, text := range p.conf[name] {
			hash, err := control.ParsePassword(text)
			if err != nil {
				return fault.New(fault.Config, "%s: %w", name, err)
			}
			p.secrets.Passwords = append(p.secrets.Passwords, hash)
		}
	}
	p.cookieAt = p.conf.one("CookieAuthFile")
	if p.cookieAt == "" {
		p.cookieAt = filepath.Join(p.dataDir, "control_auth_cookie")
	}
	var err error
	if p.cookieAt, err = filepath.Abs(p.cookieAt); err == nil && p.cookie {
		p.secrets.CookieFile = p.cookieAt
	}
	if p.portFile != "" && err == nil {
		p.portFile, err = filepath.Abs(p.portFile)
	}
	return err
}

// atHome replaces "~" as package daemon does.
func atHome(path string) (string, error) {
	s := &torrc.Setting{Key: "data-dir", Values: []string{path}, From: []torrc.Line{{File: "torrc", Key: "DataDirectory"}}}
	err := daemon.AtHome(&torrc.Document{Settings: []*torrc.Setting{s}})
	return s.Values[0], err
}
