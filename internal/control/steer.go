package control

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/ctlwire"
)

// Steering is what commands do to circuits, streams and names. Numbers are as they came: the errors repeat them.
type Steering interface {
	// ExtendCircuit answers EXTENDCIRCUIT: circuit "0" asks for a new one, over relays that the path names or, if
	// it is empty, over others; another one gets these relays as further hops. It returns the circuit's number.
	ExtendCircuit(circuit string, path []string, purpose string) (uint64, error)
	CloseCircuit(circuit string, unused bool) error
	SetCircuitPurpose(circuit, purpose string) error
	// AttachStream gives a stream to a circuit, "0": to any, at a hop, 0: the last.
	AttachStream(stream, circuit string, hop int) error
	// RedirectStream changes where a stream will go; port 0 keeps the port.
	RedirectStream(stream, host string, port uint16) error
	CloseStream(stream string, reason uint8) error
	// StreamsBy returns the streams that came by some ports of the proxy, and the circuit of each, 0: none.
	StreamsBy(ports []string) map[string]uint64
	// MapAddress has an answer for each rule.
	MapAddress(rules []Line) []Mapping
	// Resolve looks up names; the answers are events.
	Resolve(names []string, reverse bool)
	DropGuards() error
	DropTimeouts() error
}

// Mapping is what has become of a rule: its text, or why it was not taken.
type Mapping struct {
	Text string
	Err  error
}

// Bounds of one command: each rule and each name is an event for other controllers, too.
const (
	maxRules = 4096
	maxNames = 64
)

// pieces are the arguments of a command: words, then KEY=VALUE, of which some have a word alone.
type pieces struct {
	words []string
	more  []ctlwire.Keyword
}

// split reads the arguments: at least least words, of which no more than most count as words.
func (one *session) split(c ctlwire.Command, least, most int) (p pieces, ok bool, err error) {
	rest := c.Args
	for len(p.words) < most {
		word, after, _ := strings.Cut(strings.TrimLeft(rest, " \t"), " ")
		if word == "" {
			break
		}
		p.words, rest = append(p.words, word), after
	}
	if len(p.words) < least {
		return p, false, one.badArguments(c, fmt.Sprintf("Need at least %d argument(s)", least))
	}
	more, wrong := ctlwire.Keywords(rest, ctlwire.ValueOptional)
	if wrong != nil {
		return p, false, one.badArguments(c, "Cannot parse keyword argument(s)")
	}
	p.more = more
	return p, true, nil
}

// value returns the value of a keyword.
func (p *pieces) value(key string) (string, bool) {
	for _, k := range p.more {
		if strings.EqualFold(k.Key, key) && k.HasValue {
			return k.Value, true
		}
	}
	return "", false
}

// has reports whether there is a word without a value.
func (p *pieces) has(word string) bool {
	for _, k := range p.more {
		if strings.EqualFold(k.Key, word) && !k.HasValue {
			return true
		}
	}
	return false
}

// finish writes the reply to a command that has no answer but its success.
func (one *session) finish(err error) error {
	if err != nil {
		return one.fail(err)
	}
	return one.ok()
}

func (one *session) extendCircuit(c ctlwire.Command) error {
	p, ok, err := one.split(c, 1, 1)
	if !ok {
		return err
	}
	var path []string
	if len(p.more) > 0 {
		switch first := p.more[0]; {
		case first.Value == "": // "a,b", or "a="
			path = strings.Split(first.Key, ",")
		case strings.HasPrefix(first.Key, "$"): // "$FINGERPRINT=name"
			path = strings.Split(first.Key+"="+first.Value, ",")
		}
	}
	purpose, _ := p.value("PURPOSE")
	id, err := one.srv.cfg.Steering.ExtendCircuit(p.words[0], path, purpose)
	if err != nil {
		return one.fail(err)
	}
	return one.end(ctlwire.OK, "EXTENDED "+strconv.FormatUint(id, 10))
}

func (one *session) closeCircuit(c ctlwire.Command) error {
	p, ok, err := one.split(c, 1, 1)
	if !ok {
		return err
	}
	return one.finish(one.srv.cfg.Steering.CloseCircuit(p.words[0], p.has("IfUnused")))
}

func (one *session) setCircuitPurpose(c ctlwire.Command) error {
	p, ok, err := one.split(c, 1, 1)
	if !ok {
		return err
	}
	purpose, _ := p.value("PURPOSE")
	return one.finish(one.srv.cfg.Steering.SetCircuitPurpose(p.words[0], purpose))
}

func (one *session) attachStream(c ctlwire.Command) error {
	p, ok, err := one.split(c, 2, 2)
	if !ok {
		return err
	}
	for _, k := range p.more {
		if !strings.EqualFold(k.Key, "HOP") {
			return one.badArguments(c, "Unrecognized keyword argument "+ctlwire.Quote(k.Key))
		}
	}
	hop := 0
	if v, ok := p.value("HOP"); ok {
		n, err := strconv.ParseUint(v, 10, 31)
		if err != nil {
			return one.end(ctlwire.Unknown, "Bad value hop="+v)
		}
		hop = int(n)
	}
	return one.finish(one.srv.cfg.Steering.AttachStream(p.words[0], p.words[1], hop))
}

func (one *session) redirectStream(c ctlwire.Command) error {
	w := words(c)
	if len(w) < 2 {
		return one.badArguments(c, "Need at least 2 argument(s)")
	}
	var port uint16
	if len(w) > 2 {
		n, err := strconv.ParseUint(w[2], 10, 16)
		if err != nil || n == 0 {
			return one.end(ctlwire.BadArgument, "Cannot parse port "+ctlwire.Quote(w[2]))
		}
		port = uint16(n)
	}
	return one.finish(one.srv.cfg.Steering.RedirectStream(w[0], w[1], port))
}

func (one *session) closeStream(c ctlwire.Command) error {
	p, ok, err := one.split(c, 2, 2)
	if !ok {
		return err
	}
	reason, wrong := strconv.ParseUint(p.words[1], 10, 8)
	if wrong != nil {
		return one.end(ctlwire.Unknown, "Unrecognized reason "+ctlwire.Quote(p.words[1]))
	}
	return one.finish(one.srv.cfg.Steering.CloseStream(p.words[0], uint8(reason)))
}

func (one *session) mapAddress(c ctlwire.Command) error {
	list, ok, err := one.keywords(c, 0)
	if !ok {
		return err
	}
	if len(list) == 0 {
		return one.end(ctlwire.BadArgument, "syntax error: not enough arguments to mapaddress.")
	}
	if len(list) > maxRules {
		return one.badArguments(c, "Too many arguments")
	}
	rules := make([]Line, len(list))
	for i, k := range list {
		rules[i] = Line{k.Key, k.Value, k.HasValue}
	}
	answers := one.srv.cfg.Steering.MapAddress(rules)
	for i, a := range answers {
		sep := byte(ctlwire.Mid)
		if i == len(answers)-1 {
			sep = ctlwire.End
		}
		code, text := ctlwire.OK, a.Text
		var e *ctlwire.Error
		if errors.As(a.Err, &e) {
			code, text = e.Code, e.Text
		}
		if err := one.line(code, sep, ctlwire.OneLine(text)); err != nil {
			return err
		}
	}
	return nil
}

func (one *session) resolve(c ctlwire.Command) error {
	p, ok, err := one.split(c, 0, 0)
	if !ok {
		return err
	}
	mode, _ := p.value("mode")
	var names []string
	for _, k := range p.more {
		if !k.HasValue {
			names = append(names, k.Key)
		}
	}
	if len(names) > maxNames {
		return one.badArguments(c, "Too many arguments")
	}
	one.after = func() { one.srv.cfg.Steering.Resolve(names, strings.EqualFold(mode, "reverse")) }
	return one.ok()
}

func (one *session) dropGuards(ctlwire.Command) error {
	err := one.srv.cfg.Steering.DropGuards()
	if err == nil {
		one.srv.cfg.Log.Warn("a controller drops the guards: new ones may be less safe")
	}
	return one.finish(err)
}

func (one *session) dropTimeouts(ctlwire.Command) error {
	return one.finish(one.srv.cfg.Steering.DropTimeouts())
}
