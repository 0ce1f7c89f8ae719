package tord

import (
	"bytes"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/quantity"
	"github.com/chivenet/chive/internal/ram"
	"github.com/chivenet/chive/internal/torrc"
)

// relayFolder has what a relay keeps besides its keys, in the data directory: its client has a directory cache of its own
// there.
const relayFolder = "relay"

// noAddress stands for one that is not needed yet: no machine has it.
const noAddress = "192.0.2.1"

// withoutRelay are options of relays that a C tor without an ORPort obeys, too, or refuses. All others have no effect there.
var withoutRelay = []string{"AccountingMax", "BandwidthBurst", "BandwidthRate", "BridgeRelay", "DirPort"}

// serves reports whether a configuration is a relay's, as C tor decides it.
func (c conf) serves() bool {
	return !c.on("ClientOnly") && slices.ContainsFunc(c["ORPort"], func(v string) bool { return !strings.HasPrefix(v+" ", "0 ") })
}

// nameRelay gives a relay without a nickname the one that it has then: C tor's GETCONF tells it, and programs compare it with the
// descriptor.
func (c conf) nameRelay() {
	if c.serves() && len(c["Nickname"]) == 0 {
		c["Nickname"] = []string{unnamed}
	}
}

// unnamed is the nickname of relays without one.
const unnamed = "Unnamed"

// readRelay makes a relay's settings of the options of relays.
func (p *plan) readRelay() error {
	if !p.conf.serves() {
		return p.refuseWithoutRelay()
	}
	if p.bridged {
		return fault.New(fault.Config, "Servers must be able to freely connect to the rest of the Internet, so they must not set UseBridges.")
	}
	lines, err := p.relayLines()
	if err != nil {
		return err
	}
	doc, err := torrc.Translate(lines, torrc.Relay)
	if err != nil {
		return err
	}
	var toml bytes.Buffer
	kept := map[int]bool{}
	for _, s := range doc.Settings {
		for _, l := range s.From {
			kept[l.Number] = true
		}
		fmt.Fprintf(&toml, "%s = %s\n", s.Key, daemon.TOMLValue(s, daemon.NewRelaySettings))
	}
	fmt.Fprintf(&toml, "max-memory = %d\n", p.memory.relay)
	if err := p.takeNotes(doc.Notes, kept); err != nil {
		return err
	}
	for _, name := range []string{"BandwidthRate", "BandwidthBurst", "AccountingMax"} {
		if len(p.conf[name]) > 0 {
			p.notes = append(p.notes, name+": it holds for the relay, and not for the client's traffic")
		}
	}
	if len(p.conf["FamilyId"]) > 0 {
		p.notes = append(p.notes, "FamilyId: the client avoids the relays of MyFamily, and does not know the others of this family")
	}
	p.relay = daemon.NewRelaySettings()
	if err := p.relay.ReadFile("torrc", toml.Bytes()); err != nil {
		return err
	}
	if err := p.give(p.relay); err != nil {
		return err
	}
	return p.relay.Check()
}

// refuseWithoutRelay refuses options of relays that would have an effect in C tor without an ORPort.
func (p *plan) refuseWithoutRelay() error {
	for _, o := range allOptions() {
		for _, v := range p.conf[o.name] {
			switch {
			case o.does != relayed || o.isUsual(v):
			case slices.Contains(withoutRelay, o.name):
				return fault.New(fault.Config, "%s %s is not obeyed without an ORPort, so it is refused", o.name, v)
			default:
				p.notes = append(p.notes, o.name+": it has no effect without an ORPort")
			}
		}
	}
	return nil
}

// relayLines returns what package torrc translates for a relay.
func (p *plan) relayLines() (out []torrc.Line, err error) {
	put := func(key, value string) {
		out = append(out, torrc.Line{File: "torrc", Number: len(out) + 1, Key: key, Value: value})
	}
	keys := filepath.Join(p.dataDir, "keys")
	if dir := p.conf.one("KeyDirectory"); dir != "" {
		if keys, err = atHome(dir); err == nil {
			keys, err = filepath.Abs(keys)
		}
		if err != nil {
			return nil, err
		}
	}
	put("DataDirectory", filepath.Join(p.dataDir, relayFolder))
	put("KeyDirectory", keys)
	p.keyDir = keys
	if p.offline && len(p.conf["Address"]) == 0 {
		put("Address", noAddress) // without a network, nobody need know it
	}
	for _, o := range allOptions() {
		both := o.does == translated && torrc.Find(o.name).Role&torrc.Relay != 0
		if o.does != relayed && !both || slices.Contains([]string{"DataDirectory", "KeyDirectory", "MaxMemInQueues"}, o.name) {
			continue
		}
		for _, v := range p.conf[o.name] {
			put(o.name, v)
			if six, ok := andSix(v); ok && o.name == "ORPort" {
				put(o.name, six)
			}
		}
	}
	return out, nil
}

// andSix returns the line for IPv6 that C tor adds to an ORPort that names a port alone.
func andSix(line string) (string, bool) {
	f := strings.Fields(line)
	if len(f) == 0 || strings.Trim(f[0], "0123456789") != "" || f[0] == "0" || !hasSix() {
		return "", false
	}
	for _, flag := range f[1:] {
		if slices.ContainsFunc([]string{"IPv4Only", "IPv6Only", "NoListen"}, func(w string) bool { return strings.EqualFold(w, flag) }) {
			return "", false
		}
	}
	return strings.Join(append([]string{"[::]:" + f[0]}, f[1:]...), " "), true
}

// hasSix reports whether this machine has IPv6: C tor opens no port of it where there is none.
var hasSix = sync.OnceValue(func() bool {
	l, err := net.Listen("tcp6", "[::]:0")
	if err != nil {
		return false
	}
	l.Close()
	return true
})

// shares are how many bytes others can make the relay and the client hold. C tor's MaxMemInQueues, or its default, is for
// both.
type shares struct{ relay, client uint64 }

// shareMemory gives the client a quarter, as far as it needs so much.
func (p *plan) shareMemory() error {
	if !p.conf.serves() {
		return nil
	}
	all, _ := ram.MaxMemory(0)
	if v := p.conf.one("MaxMemInQueues"); v != "" {
		set, err := quantity.Bytes(v)
		if err != nil {
			return fault.New(fault.Config, "MaxMemInQueues: %w", err)
		}
		if set != 0 && set < 2*account.LeastMemory {
			return fault.New(fault.Config, "MaxMemInQueues: a relay with its client needs %d bytes", 2*account.LeastMemory)
		}
		if set != 0 {
			all = set
		}
	}
	p.memory.client = min(max(all/4, account.LeastMemory), account.DefaultMaxMemory)
	p.memory.relay = max(all-min(all, p.memory.client), account.LeastMemory)
	return nil
}
