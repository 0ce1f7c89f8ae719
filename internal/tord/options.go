// Package tord runs a client, and a relay beside it, as the program tor: with a torrc and tor's command line (tor(1)), with the lines
// on standard output that programs wait for, and with a control port.
package tord

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/quantity"
	"github.com/chivenet/chive/internal/torrc"
)

// option is an option of C tor.
type option struct {
	name, kind, usual string // its type and default value, in C tor's words
	hasUsual          bool
	does              effect
}

// effect says what becomes of an option.
type effect uint8

const (
	refused    effect = iota // only its default value, which changes nothing
	translated               // package torrc makes options of Chive's of it
	relayed                  // the same, for a relay only: without an ORPort, see withoutRelay
	ours                     // this package obeys it
	idle                     // any value is taken, and has no effect: the log says so once
	skipped                  // C tor takes it and skips it: no value is kept
	group                    // the lines of others: see portGroups
)

//go:embed options.txt
var optionTable string

// own are the options that this package obeys by itself.
var own = []string{
	"__ControlPort", "__HashedControlSessionPassword", "__LeaveStreamsUnattached", "__OwningControllerProcess", "__ReloadTorrcOnSIGHUP",
	"__DNSPort", "__HTTPTunnelPort", "__SocksPort", "__TransPort",
	"ClientOnly", "ControlPort", "ControlPortFileGroupReadable", "ControlPortWriteToFile", "ControlSocket", "ControlSocketsGroupWritable",
	"CookieAuthentication", "CookieAuthFile", "CookieAuthFileGroupReadable", "HashedControlPassword",
	"DirAuthority", "DisableNetwork", dormantCanceled, dormantTimeout, dormantFirst, "DormantTimeoutDisabledByIdleStreams", "DormantTimeoutEnabled", "EnforceDistinctSubnets", "FallbackDir", nonAnonymous, singleHop, keepBindOption, "LearnCircuitBuildTimeout", "Log", "PidFile", "RunAsDaemon", "TestingTorNetwork", "UseBridges", "User",
}

// harmless are the options that are taken without effect: what they ask for concerns no one's safety, or Chive
// does at least as much. A bridge with transports has an ExtORPort, at a port of loopback that the system chooses.
var harmless = []string{
	"AvoidDiskWrites", "ConnLimit", "DisableDebuggerAttachment", "ExtORPort", "FetchDirInfoEarly",
	"FetchDirInfoExtraEarly", "FetchUselessDescriptors", "HardwareAccel", "HeartbeatPeriod", "KeepalivePeriod", "LogMessageDomains", "LogTimeGranularity",
	"MainloopStats", "ProtocolWarnings", "SafeLogging",
}

// relayOnly are options of relays that package torrc obeys by what it makes of others.
var relayOnly = []string{"BridgeDistribution", "ExitRelay", "PublishServerDescriptor"}

// untranslated are options that package torrc has, and that a process of this package does not obey.
var untranslated = []string{"Log", "MetricsPort", "Sandbox"}

// transient are the options that no file keeps: their names begin with "__".
func (o *option) transient() bool { return strings.HasPrefix(o.name, "__") }

// allOptions has the options in C tor's order, and byName by their names in small letters.
var allOptions = sync.OnceValue(func() []*option {
	var all []*option
	for l := range strings.Lines(optionTable) {
		if strings.HasPrefix(l, "#") {
			continue
		}
		f := strings.SplitN(strings.TrimSuffix(l, "\n"), " ", 3)
		o := &option{name: f[0], kind: f[1], does: refused}
		if len(f) == 3 {
			o.usual, o.hasUsual = f[2], true
		}
		t := torrc.Find(o.name)
		switch {
		case slices.Contains(own, o.name):
			o.does = ours
		case slices.Contains(harmless, o.name):
			o.does = idle
		case t != nil && o.grouped() && t.Role&torrc.Onion != 0 && t.Key != "":
			o.does = translated
		case slices.Contains(untranslated, o.name):
		case t != nil && t.Role&torrc.Proxy != 0 && t.Key != "":
			o.does = translated
		case t != nil && t.Role&torrc.Relay != 0 && t.Key != "", slices.Contains(relayOnly, o.name):
			o.does = relayed
		}
		all = append(all, o)
	}
	return all
})

var optionsByName = sync.OnceValue(func() map[string]*option {
	m := map[string]*option{}
	for _, o := range allOptions() {
		m[strings.ToLower(o.name)] = o
	}
	m[strings.ToLower(onionGroup)] = onionOptions
	return m
})

// find returns the option that a name means, in any case; nil: none. As in C tor, the first letters of a name stand
// for the first option that begins with them.
func find(name string) *option {
	name = strings.ToLower(torrc.Today(name))
	if o := optionsByName()[name]; o != nil || name == "" {
		return o
	}
	if g := portGroups()[name]; g != nil {
		return g
	}
	if full, ok := torrc.Obsolete(name); ok {
		return &option{name: full, does: skipped}
	}
	for _, o := range allOptions() {
		if strings.HasPrefix(strings.ToLower(o.name), name) {
			return o
		}
	}
	return nil
}

// list reports whether an option has several lines.
func (o *option) list() bool { return o.kind == "LineList" || o.kind == "Dependent" }

// value checks a value and returns it in C tor's form.
func (o *option) value(s string) (string, error) {
	s = strings.TrimSpace(s)
	wrong := func(err error) error {
		return fault.New(fault.Config, "Could not parse %s: Provided value is malformed or out of bounds: %w", o.name, err)
	}
	switch o.kind {
	case "Boolean":
		if s != "0" && s != "1" {
			return "", wrong(fault.New(fault.Config, "Unrecognized value %s.", s))
		}
	case "Boolean+Auto":
		if strings.EqualFold(s, "auto") {
			return "auto", nil
		}
		if s != "0" && s != "1" {
			return "", wrong(fault.New(fault.Config, "Unrecognized value %s.", s))
		}
	case "Integer", "SignedInteger":
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 && o.kind == "Integer" || n > 1<<31-1 {
			return "", wrong(fault.New(fault.Config, "Unable to parse %s as a number", s))
		}
		return strconv.FormatInt(n, 10), nil
	case "TimeInterval":
		d, err := quantity.Interval(s)
		if err != nil {
			return "", wrong(fault.New(fault.Config, "Unable to parse %s as a number", s))
		}
		return strconv.FormatInt(int64(d/time.Second), 10), nil
	case "DataSize":
		n, err := quantity.Bytes(s)
		if err != nil {
			return "", wrong(fault.New(fault.Config, "Unable to parse %s as a number", s))
		}
		return strconv.FormatUint(n, 10), nil
	case "CommaList":
		parts := strings.Split(s, ",")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		return strings.Join(parts, ","), nil
	}
	return s, nil
}

// isUsual reports whether a value, in C tor's form, is what the option has without a line.
func (o *option) isUsual(v string) bool {
	if v == "" {
		return true
	}
	if !o.hasUsual {
		return v == "0" && (o.list() || o.kind == "String") // "ORPort 0"
	}
	usual, err := o.value(o.usual)
	return err == nil && v == usual
}

// check refuses a value that would not be obeyed.
func (o *option) check(v string) error {
	switch o.name {
	case "User":
		return checkUser(v)
	case dormantTimeout:
		return checkDormantTimeout(v)
	case keepBindOption:
		return checkKeepBind(v)
	}
	if o.does != refused || o.isUsual(v) {
		return nil
	}
	why := "it has no effect here"
	if t := torrc.Find(o.name); t != nil && t.Why != "" {
		if why = t.Why; t.Same != "" && v == t.Same {
			return nil
		}
	}
	if t := torrc.Find(o.name); t != nil && t.Role&torrc.Onion != 0 {
		why = "the services of this program are anonymous"
	} else if t != nil && t.Key != "" && t.Role&torrc.Proxy == 0 {
		why = "this program is no authority: " + t.Role.String()
	}
	return fault.New(fault.Config, "%s %s is not obeyed, so it is refused: %s", o.name, v, why)
}
