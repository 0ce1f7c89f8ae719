package daemon

import (
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/socks"
	"github.com/chivenet/chive/internal/torrc"
)

// Controlling has the ports for controllers of a process that can have some.
type Controlling struct {
	Control          []string // with their flags
	ControlPasswords []string // hashes of passwords that open those that are no unix sockets
}

func (c *Controlling) controlling() *Controlling { return c }

// controllingOf returns the ports for controllers of a role; an authority has none.
func controllingOf(r role) *Controlling {
	if c, ok := r.(interface{ controlling() *Controlling }); ok {
		return c.controlling()
	}
	return new(Controlling)
}

// AllowList is a word after the address of a port for controllers, which C tor does not have: after it stands the file
// with what the port's controllers may do.
const AllowList = "AllowList="

// controlTable is for processes that controllers can see and steer.
var controlTable = options.Table{{Title: "Control", Options: []options.Option{
	{Key: "control", Field: "Control", Each: checkControl, Lines: true, Zero: "none", Help: "`LINE` of a port for programs that speak Tor's control protocol: unix:PATH, for programs of this user and root alone (Linux), or PORT or IP:PORT of loopback, for those that know the cookie or a password; then AllowList=FILE for what they may do, without which it is all"},
	{Key: "control-password", Field: "ControlPasswords", Each: checkControlPassword, Zero: "only the cookie in control_auth_cookie in the data directory", Help: "`HASH` of a password that opens ports of control with an IP address, as 'chive tor --hash-password PASSWORD' prints it"},
}}}

// controlPort is a port for controllers as the settings have it.
type controlPort struct {
	socks.Port
	list  string         // the file with what controllers may do; empty: all
	rules *control.Rules // what is in it
}

// controlWords are the flags of such a port, beside AllowList.
var controlWords = []string{"GroupWritable", "WorldWritable"}

// parseControl reads a line without the files that it names.
func parseControl(text string) (p controlPort, err error) {
	addr, words, err := torrc.Port(text)
	if err != nil {
		return p, err
	}
	path, isUnix := strings.CutPrefix(addr, "unix:")
	if isUnix {
		addr = `unix:"` + path + `"`
	}
	for _, w := range words {
		file, isList := cutWord(w, AllowList)
		switch {
		case isList && p.list != "":
			return p, fault.New(fault.Config, "a port has one %s", AllowList)
		case isList:
			p.list = file
		case !slices.ContainsFunc(controlWords, func(f string) bool { return strings.EqualFold(f, w) }):
			return p, fault.New(fault.Config, "%s is no flag of a port for controllers", w)
		default:
			addr += " " + w
		}
	}
	if p.Port, err = socks.ParsePort(socks.SOCKSPort, addr); err != nil {
		return p, err
	}
	return p, p.check(isUnix)
}

// cutWord removes a prefix, whatever the case of its letters.
func cutWord(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// check refuses ports that let in whom nobody has asked who it is.
func (p *controlPort) check(isUnix bool) error {
	if isUnix {
		switch {
		case !control.TellsUser:
			return fault.New(fault.Config, "%s: this system does not tell whose program connects to a socket: give an address of loopback, which asks for the cookie or a password", p.Addr)
		case p.shared() && p.list == "":
			return fault.New(fault.Config, "%s: other users would have all power over this process: say with %s what they may do", p.Addr, AllowList)
		}
		return nil
	}
	a, err := netip.ParseAddrPort(p.Addr)
	if err == nil && !a.Addr().IsLoopback() {
		err = fault.New(fault.Config, "%s can be reached from other machines: give an address of loopback, or unix:PATH", p.Addr)
	}
	return err
}

// shared reports whether users other than this one may connect to a unix socket.
func (p *controlPort) shared() bool { return p.Mode&^fs.FileMode(0o600) != 0 }

func (p *controlPort) unix() bool { return strings.HasPrefix(p.Addr, "unix:") }

func checkControl(text string) error {
	_, err := parseControl(text)
	return err
}

func checkControlPassword(text string) error {
	_, err := control.ParsePassword(text)
	return err
}

// controls returns the ports for controllers with their lists.
func (c *Controlling) controls() (out []controlPort, err error) {
	for _, text := range c.Control {
		p, err := parseControl(text)
		if err == nil && p.list != "" {
			p.rules, err = control.ReadRules(p.list)
		}
		if err != nil {
			return nil, options.Wrong("Control", "%w", err)
		}
		out = append(out, p)
	}
	return out, nil
}

// controllers adds the directories of the sockets for controllers, and those of their lists: a reload reads them again.
func (c confinement) controllers(all []string) confinement {
	for _, text := range all {
		if p, err := parseControl(text); err == nil { // the settings were checked
			c = c.sockets(p.Addr).reading(p.list)
		}
	}
	return c
}
