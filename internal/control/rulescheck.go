package control

import (
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/ctlwire"
)

// verdict is what becomes of a command.
type verdict uint8

const (
	filtered verdict = iota
	allowed
	ignored // it is answered as if it was done
)

// checks are the commands that are not allowed by their name alone.
var checks = map[string]func(*Rules, *session, *ctlwire.Command) verdict{
	"GETINFO": (*Rules).checkWords, "GETCONF": (*Rules).checkWords, "SETEVENTS": (*Rules).checkEvents, "USEFEATURE": (*Rules).checkWords,
	"SIGNAL": (*Rules).checkSignal, "SETCONF": (*Rules).checkConf, "RESETCONF": (*Rules).checkConf,
	"ADD_ONION": (*Rules).checkOnion, "DEL_ONION": (*Rules).checkDelete, "HSFETCH": (*Rules).checkFetch,
	"CLOSESTREAM": (*Rules).checkStream, "ATTACHSTREAM": (*Rules).checkStream, "REDIRECTSTREAM": (*Rules).checkStream,
}

// check decides about a command, and writes its arguments anew.
func (r *Rules) check(one *session, c *ctlwire.Command) verdict {
	if slices.Contains(free, c.Name) {
		return allowed
	}
	if len(r.by[c.Name]) == 0 {
		return filtered
	}
	if f := checks[c.Name]; f != nil {
		return f(r, one, c)
	}
	return allowed
}

// find returns the first rule for a name.
func (r *Rules) find(command, name string) *rule {
	for i := range r.by[command] {
		if one := &r.by[command][i]; one.name.matches(name) {
			return one
		}
	}
	return nil
}

func (r *Rules) checkWords(_ *session, c *ctlwire.Command) verdict {
	list := words(*c)
	for _, w := range list {
		if r.find(c.Name, w) == nil {
			return filtered
		}
	}
	c.Args = strings.Join(list, " ")
	return allowed
}

// checkEvents leaves out the events that never come.
func (r *Rules) checkEvents(_ *session, c *ctlwire.Command) verdict {
	var left []string
	for _, w := range words(*c) {
		one := r.find(c.Name, w)
		if one == nil {
			return filtered
		}
		if !one.silent {
			left = append(left, w)
		}
	}
	c.Args = strings.Join(left, " ")
	return allowed
}

func (r *Rules) checkSignal(_ *session, c *ctlwire.Command) verdict {
	list := words(*c)
	if len(list) != 1 {
		return filtered
	}
	one := r.find(c.Name, list[0])
	if one == nil {
		return filtered
	}
	if one.ignore {
		return ignored
	}
	c.Args = list[0]
	return allowed
}

func (r *Rules) checkConf(_ *session, c *ctlwire.Command) verdict {
	list, err := ctlwire.Keywords(c.Args, ctlwire.ValueOptional|ctlwire.CString)
	if err != nil {
		return filtered
	}
	var left []string
	for _, k := range list {
		one := r.findOption(c.Name, k)
		switch {
		case one == nil:
			return filtered
		case one.ignore:
		case k.HasValue:
			left = append(left, k.Key+"="+ctlwire.Quote(k.Value))
		default:
			left = append(left, k.Key)
		}
	}
	if c.Args = strings.Join(left, " "); len(left) == 0 && len(list) > 0 {
		return ignored
	}
	return allowed
}

func (r *Rules) findOption(command string, k ctlwire.Keyword) *rule {
	for i := range r.by[command] {
		one := &r.by[command][i]
		if one.name.matches(k.Key) && (one.value == nil && !k.HasValue || one.value != nil && k.HasValue && one.value.matches(k.Value)) {
			return one
		}
	}
	return nil
}

func (r *Rules) checkOnion(one *session, c *ctlwire.Command) verdict {
	for i := range r.by[c.Name] {
		if args, ok := r.by[c.Name][i].onion.check(c.Args); ok && one.mayHave(r.by[c.Name][i].onion.max) {
			c.Args = args
			return allowed
		}
	}
	return filtered
}

// check returns the arguments of ADD_ONION as the rule has them go on.
func (o *onionRule) check(args string) (string, bool) {
	key, more := ctlwire.Cut(args)
	list, err := ctlwire.Keywords(more, 0)
	if err != nil || key == "" {
		return "", false
	}
	if kind, _, _ := strings.Cut(key, ":"); !o.anyKey && !strings.EqualFold(kind, "NEW") {
		return "", false
	}
	out := []string{key}
	var flags []string
	for _, k := range list {
		switch {
		case strings.EqualFold(k.Key, "Port"):
			v, ok := o.port(k.Value)
			if !ok {
				return "", false
			}
			out = append(out, "Port="+v)
		case strings.EqualFold(k.Key, "Flags"):
			for _, f := range strings.Split(k.Value, ",") {
				if !contains(o.flags, f) {
					return "", false
				}
				flags = append(flags, f)
			}
		case strings.EqualFold(k.Key, "ClientAuthV3") && contains(o.flags, "V3Auth"), contains(o.with, k.Key):
			if !oneWord(k.Value) {
				return "", false
			}
			out = append(out, k.Key+"="+k.Value)
		default:
			return "", false
		}
	}
	for _, f := range o.force {
		if !contains(flags, f) {
			flags = append(flags, f)
		}
	}
	if len(flags) > 0 {
		out = append(out, "Flags="+strings.Join(flags, ","))
	}
	return strings.Join(out, " "), true
}

// oneWord reports whether a value is read as what it is without quotes.
func oneWord(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return s != ""
}

// checkDelete leaves a controller its own services, and those of nobody if the rule says so.
func (r *Rules) checkDelete(one *session, c *ctlwire.Command) verdict {
	list := words(*c)
	if len(list) != 1 {
		return filtered
	}
	c.Args = list[0]
	if one.hasOnion(c.Args) || slices.ContainsFunc(r.by[c.Name], func(o rule) bool { return o.more }) {
		return allowed
	}
	return filtered
}

func (r *Rules) checkFetch(one *session, c *ctlwire.Command) verdict {
	address, more := ctlwire.Cut(c.Args)
	rule := r.find(c.Name, address)
	if rule == nil || more != "" && !rule.more {
		return filtered
	}
	c.Args = strings.TrimRight(address+" "+more, " ")
	if IsAddress(address) { // else it is refused, and may have the length of a command
		one.noteFetch(address)
	}
	return allowed
}

// checkStream lets a controller have its way with its own streams, or with all.
func (r *Rules) checkStream(one *session, c *ctlwire.Command) verdict {
	id, rest := ctlwire.Cut(c.Args)
	if !slices.ContainsFunc(r.by[c.Name], func(o rule) bool { return !o.own }) {
		if _, own := one.ownStreams(r)[id]; !own {
			return filtered
		}
	}
	c.Args = strings.TrimRight(id+" "+rest, " ")
	return allowed
}
