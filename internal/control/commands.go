package control

import (
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/ctlwire"
)

// Signals are the names that SIGNAL takes, with the one that the Engine gets for each, in C tor's order.
var Signals = []struct{ Name, Is string }{
	{"RELOAD", "RELOAD"}, {"HUP", "RELOAD"}, {"SHUTDOWN", "SHUTDOWN"}, {"DUMP", "DUMP"}, {"USR1", "DUMP"}, {"DEBUG", "DEBUG"}, {"USR2", "DEBUG"},
	{"HALT", "HALT"}, {"TERM", "HALT"}, {"INT", "SHUTDOWN"}, {"NEWNYM", "NEWNYM"}, {"CLEARDNSCACHE", "CLEARDNSCACHE"},
	{"HEARTBEAT", "HEARTBEAT"}, {"ACTIVE", "ACTIVE"}, {"DORMANT", "DORMANT"},
}

// Features are the names that USEFEATURE takes. Replies and events always have what they stand for.
var Features = []string{"VERBOSE_NAMES", "EXTENDED_EVENTS"}

func (one *session) quit(ctlwire.Command) error {
	one.last = true
	return one.end(ctlwire.OK, "closing connection")
}

func (one *session) getInfo(c ctlwire.Command) error {
	keys := words(c)
	var unknown []string
	for _, key := range keys { // answers are made again below: to keep them all would take what a controller chooses
		if one.ended() { // a command has room for very many keys, and nobody wants the answer
			return net.ErrClosed
		}
		_, err := one.info(key)
		var e *ctlwire.Error
		switch {
		case err == nil:
		case errors.As(err, &e) && e.Code == ctlwire.Unknown:
			unknown = append(unknown, e.Text)
		default:
			return one.fail(err)
		}
	}
	if len(unknown) > 0 {
		return one.lines(ctlwire.Unknown, unknown)
	}
	for _, key := range keys {
		a, err := one.info(key)
		if err != nil { // it has changed meanwhile
			return one.fail(err)
		}
		if err := one.answer(key, a); err != nil {
			return err
		}
	}
	return one.ok()
}

// info returns the value of a key.
func (one *session) info(key string) (Answer, error) {
	r := one.rules()
	if r == nil {
		return one.wholeInfo(key)
	}
	rule := r.find("GETINFO", key)
	switch {
	case rule == nil: // the list has become another one meanwhile
		return Answer{}, errFiltered
	case rule.answer != nil:
		return Answer{Text: *rule.answer}, nil
	}
	a, err := one.wholeInfo(key)
	if err == nil && rule.own {
		a = one.ownLines(r, key, a)
	}
	return a, err
}

// wholeInfo returns the value of a key as somebody may see it who may see all.
func (one *session) wholeInfo(key string) (Answer, error) {
	if a, own := one.onionInfo(key); own {
		return a, nil
	}
	return one.srv.cfg.Engine.Info(key)
}

// answer writes the value of a key as it comes.
func (one *session) answer(key string, a Answer) error {
	if a.Lines == nil && !strings.Contains(a.Text, "\n") {
		return one.line(ctlwire.OK, ctlwire.Mid, key+"="+a.Text)
	}
	if a.Lines == nil {
		a.Lines = strings.SplitSeq(strings.TrimSuffix(a.Text, "\n"), "\n")
	}
	var b []byte
	began := false
	for l := range a.Lines {
		if !began {
			if err := one.line(ctlwire.OK, ctlwire.Data, key+"="); err != nil {
				return err
			}
			began = true
		}
		var err error
		if b, err = ctlwire.AppendDataLine(b[:0], strings.TrimSuffix(l, "\r")); err != nil {
			return err
		}
		if _, err = one.out.Write(b); err != nil {
			return err
		}
	}
	if !began {
		return one.line(ctlwire.OK, ctlwire.Mid, key+"=")
	}
	_, err := one.out.Write(ctlwire.AppendDataEnd(b[:0]))
	return err
}

// lines writes a reply of lines without data.
func (one *session) lines(code int, texts []string) error {
	for _, t := range texts[:len(texts)-1] {
		if err := one.line(code, ctlwire.Mid, ctlwire.OneLine(t)); err != nil {
			return err
		}
	}
	return one.end(code, texts[len(texts)-1])
}

func (one *session) getConf(c ctlwire.Command) error {
	var out, unknown []string
	for _, name := range words(c) {
		if one.ended() {
			return net.ErrClosed
		}
		list, err := one.srv.cfg.Engine.Get(name)
		var e *ctlwire.Error
		switch {
		case errors.As(err, &e) && e.Code == ctlwire.Unknown:
			unknown = append(unknown, e.Text)
			continue
		case err != nil:
			return one.fail(err)
		}
		for _, l := range one.told(name, list) {
			text := l.Key
			if l.HasValue {
				text += "=" + l.Value
			}
			out = append(out, text)
		}
	}
	switch {
	case len(unknown) > 0:
		return one.lines(ctlwire.Unknown, unknown)
	case len(out) > 0:
		return one.lines(ctlwire.OK, out)
	}
	return one.ok()
}

func (one *session) setConf(c ctlwire.Command) error   { return one.configure(c, false) }
func (one *session) resetConf(c ctlwire.Command) error { return one.configure(c, true) }

func (one *session) configure(c ctlwire.Command, reset bool) error {
	list, ok, err := one.keywords(c, ctlwire.ValueOptional|ctlwire.CString)
	if !ok {
		return err
	}
	changes := make([]Line, len(list))
	for i, k := range list {
		changes[i] = Line{k.Key, k.Value, k.HasValue}
	}
	if err := one.srv.cfg.Engine.Set(changes, reset); err != nil {
		return one.fail(err)
	}
	return one.ok()
}

func (one *session) loadConf(c ctlwire.Command) error {
	if err := one.srv.cfg.Engine.Load(c.Data); err != nil {
		return one.fail(err)
	}
	return one.ok()
}

func (one *session) saveConf(c ctlwire.Command) error {
	list, ok, err := one.keywords(c, ctlwire.ValueOptional)
	if !ok {
		return err
	}
	force := slices.ContainsFunc(list, func(k ctlwire.Keyword) bool { return strings.EqualFold(k.Key, "FORCE") && !k.HasValue })
	if err := one.srv.cfg.Engine.Save(force); err != nil {
		var e *ctlwire.Error
		if errors.As(err, &e) { // it has words of its own for controllers
			return one.fail(err)
		}
		one.srv.cfg.Log.Warn("SAVECONF: the configuration was not written", "err", err)
		return one.end(ctlwire.Failed, "Unable to write configuration to disk.")
	}
	return one.ok()
}

func (one *session) setEvents(c ctlwire.Command) error {
	if unknown := one.want(words(c)); unknown != "" {
		return one.end(ctlwire.Unknown, "Unrecognized event "+ctlwire.Quote(unknown))
	}
	return one.ok()
}

func (one *session) signal(c ctlwire.Command) error {
	args := words(c)
	switch {
	case len(args) == 0:
		return one.badArguments(c, "Need at least 1 argument(s)")
	case len(args) > 1:
		return one.badArguments(c, "Cannot accept more than 1 argument(s)")
	}
	for _, s := range Signals {
		if strings.EqualFold(s.Name, args[0]) {
			one.after = func() { one.srv.cfg.Engine.Signal(s.Is) }
			return one.ok()
		}
	}
	return one.end(ctlwire.Unknown, "Unrecognized signal code "+ctlwire.Quote(args[0]))
}

func (one *session) takeOwnership(ctlwire.Command) error {
	one.owner.Store(true)
	return one.ok()
}

func (one *session) dropOwnership(ctlwire.Command) error {
	one.owner.Store(false)
	return one.ok()
}

func (one *session) useFeature(c ctlwire.Command) error {
	for _, name := range words(c) {
		if !slices.ContainsFunc(Features, func(f string) bool { return strings.EqualFold(f, name) }) {
			return one.end(ctlwire.Unknown, "Unrecognized feature "+ctlwire.Quote(name))
		}
	}
	return one.ok()
}
