package control

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/fault"
)

// Rules are an allow list: what the controllers of one port may do. All else is answered with "510 Command filtered",
// before anything of it is done. A command is checked as its arguments are understood, not as they are written, and
// what was understood is written anew for the command: no way to write it can mean something else there.
type Rules struct {
	by    map[string][]rule // by command
	ports []string          // of the proxy, whose streams are the controllers' own
}

// rule allows a command with some arguments.
type rule struct {
	name   pattern  // of a key, option, event or signal
	value  *pattern // of an option; nil: it has none
	answer *string  // what is answered instead of the truth
	own    bool     // only what is about the controller's own streams or services
	ignore bool     // it is answered, and not done
	silent bool     // the event may be asked for, and never comes
	hide   bool     // relays have no names in the event
	more   bool     // a command's wider form
	onion  *onionRule
}

// pattern is a text, or, with many, all that begin with it.
type pattern struct {
	text       string
	many, fold bool
}

func (p pattern) matches(s string) bool {
	if p.many && len(s) >= len(p.text) {
		s = s[:len(p.text)]
	}
	return s == p.text || p.fold && strings.EqualFold(s, p.text)
}

// form says which rules a command has.
type form struct {
	subject uint8
	fold    bool     // names in any case
	options []string // words after the subject
	known   func(string) bool
}

// What stands after the command's name in a rule.
const (
	nothing uint8 = iota
	aName
	anOption // NAME=VALUE, or NAME
	anOnion
)

// free are the commands that need no rule: they show who a controller is, and end its connection.
var free = []string{"PROTOCOLINFO", "AUTHCHALLENGE", "AUTHENTICATE", "QUIT"}

// forms are the commands that rules can allow. Of those with aName and no word for it, the first argument is meant.
var forms = map[string]form{
	"GETINFO":    {subject: aName, options: []string{"answer", "own"}},
	"GETCONF":    {subject: aName, fold: true, options: []string{"answer"}},
	"SETCONF":    {subject: anOption, fold: true, options: []string{"ignore"}},
	"RESETCONF":  {subject: anOption, fold: true, options: []string{"ignore"}},
	"SETEVENTS":  {subject: aName, fold: true, options: []string{"own", "silent", "hide-relays"}, known: isEvent},
	"SIGNAL":     {subject: aName, fold: true, options: []string{"ignore"}, known: isSignal},
	"USEFEATURE": {subject: aName, fold: true},

	"ADD_ONION": {subject: anOnion},
	"DEL_ONION": {options: []string{"detached"}},
	"HSFETCH":   {subject: aName, options: []string{"servers"}},

	"CLOSESTREAM":    {options: []string{"own"}},
	"ATTACHSTREAM":   {options: []string{"own"}},
	"REDIRECTSTREAM": {options: []string{"own"}},

	"LOADCONF": {}, "SAVECONF": {}, "TAKEOWNERSHIP": {}, "DROPOWNERSHIP": {},
	"ONION_CLIENT_AUTH_ADD": {}, "ONION_CLIENT_AUTH_REMOVE": {}, "ONION_CLIENT_AUTH_VIEW": {}, "HSPOST": {},
	"EXTENDCIRCUIT": {}, "CLOSECIRCUIT": {}, "SETCIRCUITPURPOSE": {}, "MAPADDRESS": {}, "RESOLVE": {}, "DROPGUARDS": {}, "DROPTIMEOUTS": {},
}

// ownable are the keys and events of which a controller may see only what is its own.
var ownable = []string{"stream-status", "circuit-status", "STREAM", "CIRC", "HS_DESC", "HS_DESC_CONTENT"}

func isEvent(name string) bool {
	up := strings.ToUpper(name)
	return slices.Contains(eventNames[:], up) || slices.Contains(gone, up)
}

func isSignal(name string) bool {
	for _, s := range Signals {
		if strings.EqualFold(s.Name, name) {
			return true
		}
	}
	return false
}

// MaxRules bounds the size of an allow list, in bytes.
const MaxRules = 64 << 10

// ReadRules reads the allow list in a file.
func ReadRules(path string) (*Rules, error) {
	if !filepath.IsAbs(path) {
		return nil, fault.New(fault.Config, "%s: give an absolute path", path)
	}
	text, err := atomicfile.ReadRegular(path, MaxRules)
	if err != nil {
		return nil, fault.Wrap(fault.Config, err)
	}
	return ParseRules(path, text)
}

// ParseRules reads an allow list. An error names the file and the line.
func ParseRules(file string, text []byte) (*Rules, error) {
	if len(text) > MaxRules {
		return nil, fault.New(fault.Config, "%s: more than %d bytes", file, MaxRules)
	}
	r := &Rules{by: map[string][]rule{}}
	n := 0
	for l := range strings.Lines(string(text)) {
		n++
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		if err := r.read(l); err != nil {
			return nil, fault.New(fault.Config, "%s:%d: %w", file, n, err)
		}
	}
	for command, rules := range r.by {
		for _, one := range rules {
			if one.own && len(r.ports) == 0 && !strings.HasPrefix(one.name.text, "HS_DESC") {
				return nil, fault.New(fault.Config, "%s: %s with own needs a line \"streams PORT\", which says whose streams these are", file, command)
			}
		}
	}
	return r, nil
}

// read reads a line.
func (r *Rules) read(l string) error {
	word, rest := ctlwire.Cut(l)
	if word == "streams" {
		if rest == "" || strings.ContainsAny(rest, " \t") {
			return fault.New(fault.Config, "streams: give one port of the proxy, such as 127.0.0.1:9150")
		}
		r.ports = append(r.ports, strings.TrimPrefix(rest, "unix:"))
		return nil
	}
	f, ok := forms[word]
	if !ok {
		if slices.Contains(free, word) {
			return fault.New(fault.Config, "%s needs no rule", word)
		}
		return fault.New(fault.Config, "%s: there is no such command to allow", ctlwire.Quote(word))
	}
	list, err := ctlwire.Keywords(rest, ctlwire.ValueOptional|ctlwire.CString)
	if err != nil {
		return fault.New(fault.Config, "%s: %w", word, err)
	}
	var one rule
	switch f.subject {
	case anOnion:
		one.onion, err = readOnionRule(list)
		list = nil
	case aName, anOption:
		list, err = one.readSubject(word, &f, list)
	}
	if err == nil {
		err = one.readOptions(word, &f, list)
	}
	if err == nil {
		r.by[word] = append(r.by[word], one)
	}
	return err
}

// readSubject reads what the rule is about, and returns the rest.
func (one *rule) readSubject(command string, f *form, list []ctlwire.Keyword) ([]ctlwire.Keyword, error) {
	if len(list) == 0 {
		return nil, fault.New(fault.Config, "%s: say what of it is allowed", command)
	}
	k := list[0]
	var err error
	if one.name, err = readPattern(k.Key, f.fold); err != nil {
		return nil, err
	}
	switch {
	case k.HasValue && f.subject != anOption:
		return nil, fault.New(fault.Config, "%s %s: it has no value", command, k.Key)
	case k.HasValue:
		v, err := readPattern(k.Value, false)
		if err != nil {
			return nil, err
		}
		one.value = &v
	case f.known != nil && (one.name.many || !f.known(k.Key)):
		return nil, fault.New(fault.Config, "%s %s: there is no such name", command, k.Key)
	}
	return list[1:], nil
}

func (one *rule) readOptions(command string, f *form, list []ctlwire.Keyword) error {
	for _, k := range list {
		if !slices.Contains(f.options, k.Key) {
			return fault.New(fault.Config, "%s: %s is no word of its rules", command, ctlwire.Quote(k.Key))
		}
		if k.HasValue != (k.Key == "answer") {
			return fault.New(fault.Config, "%s: %s: a value is missing, or too much", command, k.Key)
		}
		switch k.Key {
		case "answer":
			if one.name.many || ctlwire.OneLine(k.Value) != k.Value {
				return fault.New(fault.Config, "%s: an answer is one line, for one name", command)
			}
			one.answer = &k.Value
		case "own":
			if one.name.many || one.name.text != "" && !slices.ContainsFunc(ownable, one.name.matches) {
				return fault.New(fault.Config, "%s %s: what of it is a controller's own is not known", command, one.name.text)
			}
			one.own = true
		case "ignore":
			one.ignore = true
		case "silent":
			one.silent = true
		case "hide-relays":
			if !strings.EqualFold(one.name.text, "HS_DESC") {
				return fault.New(fault.Config, "%s %s: hide-relays is for HS_DESC", command, one.name.text)
			}
			one.hide = true
		case "detached", "servers":
			one.more = true
		}
	}
	if command == "SETEVENTS" {
		one.name.text = strings.ToUpper(one.name.text)
	}
	return nil
}

// readPattern reads "TEXT", or "TEXT*".
func readPattern(s string, fold bool) (pattern, error) {
	text, many := strings.CutSuffix(s, "*")
	if strings.Contains(text, "*") {
		return pattern{}, fault.New(fault.Config, "%s: \"*\" stands at the end only", ctlwire.Quote(s))
	}
	return pattern{text, many, fold}, nil
}

// onionRule allows ADD_ONION.
type onionRule struct {
	anyKey  bool
	ports   []string // "*": all
	targets []target
	host    string // that targets get instead of theirs; empty: theirs stays
	flags   []string
	force   []string // flags that are added
	with    []string // further keywords
	max     int      // services at a time; zero: as many as the server lets
}

// target is where connections to a service may go: a host and ports, or sockets.
type target struct {
	host      string
	low, high uint16
	path      pattern // of a socket; zero: none
}

// onionFlags and onionWords are what rules can allow of ADD_ONION.
var (
	onionFlags = []string{"DiscardPK", "Detach", "V3Auth", "MaxStreamsCloseCircuit"}
	onionWords = []string{"MaxStreams", "PoWDefensesEnabled", "PoWQueueRate", "PoWQueueBurst"}
)

func readOnionRule(list []ctlwire.Keyword) (*onionRule, error) {
	o := &onionRule{}
	for _, k := range list {
		var err error
		switch k.Key {
		case "key":
			if o.anyKey = k.Value == "any"; !o.anyKey && k.Value != "new" {
				err = fault.New(fault.Config, "ADD_ONION: key=new or key=any")
			}
		case "port":
			o.ports = append(o.ports, strings.Split(k.Value, ",")...)
			for _, p := range o.ports {
				if n, e := strconv.ParseUint(p, 10, 16); p != "*" && (e != nil || n == 0 || strconv.FormatUint(n, 10) != p) {
					err = fault.New(fault.Config, "ADD_ONION: port=%s: give ports from 1 to 65535, or *", k.Value)
				}
			}
		case "target":
			var t target
			t, err = readTarget(k.Value)
			o.targets = append(o.targets, t)
		case "host":
			if o.host = k.Value; !isHost(o.host) {
				err = fault.New(fault.Config, "ADD_ONION: host=%s: give an IP address", ctlwire.Quote(k.Value))
			}
		case "flags":
			o.flags, err = readNames("flags", k.Value, onionFlags)
		case "force-flags":
			o.force, err = readNames("force-flags", k.Value, onionFlags)
		case "with":
			o.with, err = readNames("with", k.Value, onionWords)
		case "max":
			o.max, err = strconv.Atoi(k.Value)
			if err != nil || o.max < 1 || o.max > maxOnions {
				err = fault.New(fault.Config, "ADD_ONION: max=%s: give a number from 1 to %d", ctlwire.Quote(k.Value), maxOnions)
			}
		default:
			err = fault.New(fault.Config, "ADD_ONION: %s is no word of its rules", ctlwire.Quote(k.Key))
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case len(o.ports) == 0 || len(o.targets) == 0:
		return nil, fault.New(fault.Config, "ADD_ONION: say port= and target=")
	case o.max > 0 && (contains(o.flags, "Detach") || contains(o.force, "Detach")):
		return nil, fault.New(fault.Config, "ADD_ONION: detached services are nobody's, so max= does not count them")
	}
	return o, nil
}

func readNames(what, value string, known []string) (out []string, err error) {
	for _, n := range strings.Split(value, ",") {
		i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, n) })
		if i < 0 {
			return nil, fault.New(fault.Config, "ADD_ONION: %s=%s: known are %s", what, ctlwire.Quote(n), strings.Join(known, ", "))
		}
		out = append(out, known[i])
	}
	return out, nil
}

// contains reports whether a list has a name in any case.
func contains(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, name) })
}
