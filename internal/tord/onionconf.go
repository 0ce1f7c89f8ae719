package tord

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/torrc"
)

// onionGroup is the name under which a configuration has the options of onion services, as in C tor: their order
// says to which HiddenServiceDir each belongs. A value is the option's name and its value.
const onionGroup = "HiddenServiceOptions"

// The options that give up the anonymity of all services. They go together, and without the ports of a client.
const (
	nonAnonymous = "HiddenServiceNonAnonymousMode"
	singleHop    = "HiddenServiceSingleHopMode"
)

// readSingle checks them. Programs look for C tor's texts.
func (p *plan) readSingle() error {
	hop, open := p.conf.on(singleHop), p.conf.on(nonAnonymous)
	switch {
	case hop && !open:
		return fault.New(fault.Config, "%s does not provide any server anonymity. It must be used with %s set to 1.", singleHop, nonAnonymous)
	case open && !hop:
		return fault.New(fault.Config, "%s does not provide any server anonymity. It must be used with %s set to 1.", nonAnonymous, singleHop)
	case open && p.hasDoor():
		return fault.New(fault.Config, "%s is incompatible with using Tor as an anonymous client. Please set Socks/Trans/NATD/DNSPort to 0, or revert %s to 0.", nonAnonymous, nonAnonymous)
	}
	p.findable = open
	return nil
}

// hasDoor reports whether there is a port that leads to the network: without a line, there is a SocksPort.
func (p *plan) hasDoor() bool {
	for _, name := range clientPorts {
		lines := p.conf[name]
		if name == "SocksPort" && len(lines) == 0 {
			lines = []string{p.conf.one(name)}
		}
		for _, l := range lines {
			if addr, _, err := torrc.Port(l); err != nil || addr != "0" {
				return true
			}
		}
	}
	return false
}

// onionOptions is the group itself. It has no lines of its own in a file.
var onionOptions = &option{name: onionGroup, kind: "Virtual", does: translated}

// grouped reports whether an option belongs to one onion service.
func (o *option) grouped() bool {
	return o == onionOptions || o.kind == "Dependent" && strings.HasPrefix(o.name, "HiddenService")
}

// key returns where a configuration has the option's values.
func (o *option) key() string {
	if o.grouped() {
		return onionGroup
	}
	return o.name
}

// onionLines returns the lines of onion services, as GETCONF shows them.
func (c conf) onionLines() (out []control.Line) {
	for _, l := range c[onionGroup] {
		name, value, _ := strings.Cut(l, " ")
		out = append(out, control.Line{Key: name, Value: value, HasValue: true})
	}
	return out
}

// onionText returns the lines of onion services as a torrc has them.
func (c conf) onionText() string {
	var b strings.Builder
	for _, l := range c.onionLines() {
		b.WriteString(l.Key + " " + fileValue(l.Value) + "\n")
	}
	return b.String()
}

// writeOnions writes the tables of onion services, and notes their directories.
func (p *plan) writeOnions(toml *bytes.Buffer, services [][]*torrc.Setting) error {
	fresh := func() *daemon.Settings { return daemon.NewOnionSettings(new([]string)) }
	for _, settings := range services {
		fmt.Fprint(toml, "\n[[onion]]\n")
		for _, s := range settings {
			if s.Key == "key-dir" {
				dir, err := atHome(s.Values[0])
				if err != nil {
					return err
				}
				s.Values[0] = dir
				p.onionDirs = append(p.onionDirs, dir)
			}
			fmt.Fprintf(toml, "%s = %s\n", s.Key, daemon.TOMLValue(s, fresh))
		}
	}
	return nil
}

// makeOnionKeys makes the keys of services whose directories have none, if no client does it: programs read a
// service's address in its directory as soon as it is configured.
func (p *plan) makeOnionKeys() error {
	for _, dir := range p.onionDirs {
		if _, err := hsservice.OpenKey(dir); err != nil {
			return err
		}
	}
	return nil
}
