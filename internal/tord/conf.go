package tord

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/torrc"
)

// conf is a configuration: the options that have other values than by default. It does not change once it is
// in use.
type conf map[string][]string

// skippedNames is where a configuration has the names of options that C tor skips, for the log. No option has this name.
const skippedNames = "skipped options"

// unknownOption is the error of a name that no option has. Controllers read its text.
func unknownOption(name string) error {
	return fault.New(fault.Config, "Unknown option '%s'.  Failing.", name)
}

func (c conf) clone() conf { return maps.Clone(c) }

// add takes the lines of one source, whose options replace those of sources before it, unless they begin
// with "+".
func (c conf) add(lines []torrc.Line) error {
	began := map[string]bool{}
	for _, l := range lines {
		name, reset := strings.CutPrefix(l.Key, "/")
		o := find(name)
		if o == nil {
			return placed(unknownOption(name), l)
		}
		if !began[o.key()] && !(l.Adds && o.list()) {
			delete(c, o.key())
		}
		began[o.key()] = true
		if reset {
			delete(c, o.key())
			continue
		}
		if err := c.put(o, l.Value); err != nil {
			return placed(err, l)
		}
	}
	return nil
}

// commandLineName is the File of an option of the command line.
const commandLineName = "command line"

// placed adds where a mistake is. The texts of C tor that programs look for come first.
func placed(err error, l torrc.Line) error {
	if l.File == commandLineName {
		return err
	}
	return fmt.Errorf("%w (%s)", err, l.At())
}

// put adds a value to an option, or replaces its one value.
func (c conf) put(o *option, value string) error {
	if o.does == group {
		return fault.New(fault.Config, "Cannot assign directly to virtual option.")
	}
	if o.does == skipped {
		if !slices.Contains(c[skippedNames], o.name) {
			c[skippedNames] = append(slices.Clip(c[skippedNames]), o.name)
		}
		return nil
	}
	if value == "" || value == o.usual && o.does == refused {
		if !o.grouped() {
			delete(c, o.name)
		}
		return nil
	}
	if o == onionOptions {
		return fault.New(fault.Config, "%s has no value of its own: give HiddenServiceDir and the others", o.name)
	}
	v, err := o.value(value)
	if err == nil {
		err = o.check(v)
	}
	switch {
	case err != nil:
		return err
	case o.grouped():
		c[onionGroup] = append(slices.Clip(c[onionGroup]), o.name+" "+v)
	case o.list():
		c[o.name] = append(slices.Clip(c[o.name]), v)
	default:
		c[o.name] = []string{v}
	}
	return nil
}

// fixed are options that a running program keeps.
var fixed = []string{"DataDirectory", keepBindOption, nonAnonymous, singleHop, "User", "PidFile", "RunAsDaemon"}

// set returns the configuration after SETCONF or RESETCONF. Their one difference is what an option without a
// value becomes, and here both times it is its default value.
func (c conf) set(changes []control.Line) (conf, error) {
	next := c.clone()
	began := map[string]bool{}
	for _, l := range changes {
		o := find(l.Key)
		if o == nil {
			return nil, ctlwire.Errorf(ctlwire.Unknown, "Unrecognized option: %v", unknownOption(l.Key))
		}
		if !began[o.key()] {
			delete(next, o.key())
		}
		began[o.key()] = true
		if err := next.put(o, l.Value); err != nil {
			code, what := ctlwire.BadValue, "Unacceptable option value"
			if slices.Contains(fixed, o.name) {
				code, what, err = ctlwire.BadConfig, "Transition not allowed", stays(o.name)
			}
			return nil, ctlwire.Errorf(code, "%s: %v", what, err)
		}
	}
	return next, next.follows(c)
}

func stays(name string) error {
	return fault.New(fault.Config, "While Tor is running, changing %s is not allowed", name)
}

// follows refuses a configuration that a program with another one cannot take over.
func (c conf) follows(before conf) error {
	for _, name := range fixed {
		if !slices.Equal(c[name], before[name]) {
			return ctlwire.Errorf(ctlwire.BadConfig, "Transition not allowed: %v", stays(name))
		}
	}
	return nil
}

// get answers GETCONF.
func (c conf) get(name string) ([]control.Line, error) {
	o := find(name)
	if o == onionOptions && len(c[onionGroup]) > 0 {
		return c.onionLines(), nil
	}
	if o != nil && o.does == group {
		return c.groupLines(o), nil
	}
	if o == nil {
		return nil, ctlwire.Errorf(ctlwire.Unknown, "Unrecognized configuration key %s", ctlwire.Quote(name))
	}
	if values := c[o.name]; len(values) > 0 {
		var out []control.Line
		for _, v := range values {
			out = append(out, control.Line{Key: o.name, Value: v, HasValue: true})
		}
		return out, nil
	}
	usual, has := c.standard(o)
	return []control.Line{{Key: o.name, Value: usual, HasValue: has}}, nil
}

// standard returns the default value in C tor's form.
func (o *option) standard() (string, bool) {
	if !o.hasUsual {
		return "", o.kind == "RouterList" // C tor writes an empty list
	}
	v, err := o.value(o.usual)
	if err != nil { // of a kind that no line can change, such as a number of milliseconds
		v = o.usual
	}
	return v, true
}

// standard returns an option's default value here: TestingTorNetwork changes some, of which Chive has one.
func (c conf) standard(o *option) (string, bool) {
	if o.name == "EnforceDistinctSubnets" && slices.Contains(c["TestingTorNetwork"], "1") {
		return "0", true
	}
	return o.standard()
}

// one returns the value of an option that has one line.
func (c conf) one(name string) string {
	if v := c[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	v, _ := c.standard(find(name))
	return v
}

// on reports whether a Boolean option is 1.
func (c conf) on(name string) bool { return c.one(name) == "1" }

// text returns the options as a torrc, without those that no file keeps.
func (c conf) text() string {
	var b strings.Builder
	for _, o := range allOptions() {
		usual, _ := c.standard(o)
		for _, v := range c[o.name] {
			if !o.transient() && (o.list() || v != usual) {
				b.WriteString(o.name + " " + fileValue(v) + "\n")
			}
		}
	}
	return b.String() + c.onionText()
}

// dump returns the options as --dump-config shows them: those that differ from their default values, or all.
func (c conf) dump(all bool) string {
	if !all {
		return c.text()
	}
	var b strings.Builder
	for _, o := range allOptions() {
		lines, err := c.get(o.name)
		for _, l := range lines {
			if err == nil && l.HasValue {
				b.WriteString(l.Key + " " + fileValue(l.Value) + "\n")
			}
		}
	}
	return b.String() + c.onionText()
}

// fileValue quotes a value that a torrc would not keep as it is.
func fileValue(v string) string {
	if strings.ContainsAny(v, "#\r\n\t") || strings.HasPrefix(v, `"`) && strings.HasSuffix(v, " ") {
		return ctlwire.Quote(v)
	}
	return v
}

// changed returns "KEY=VALUE" for each option that differs between two configurations, for CONF_CHANGED.
func changed(before, after conf) (out []string) {
	for _, o := range allOptions() {
		if slices.Equal(before[o.name], after[o.name]) {
			continue
		}
		if usual, has := after.standard(o); len(after[o.name]) == 0 && has {
			out = append(out, o.name+"="+usual) // as C tor: controllers keep what events say
		} else if len(after[o.name]) == 0 {
			out = append(out, o.name)
		}
		for _, v := range after[o.name] {
			out = append(out, o.name+"="+v)
		}
	}
	if !slices.Equal(before[onionGroup], after[onionGroup]) {
		for _, l := range after.onionLines() {
			out = append(out, l.Key+"="+l.Value)
		}
		if len(after[onionGroup]) == 0 {
			out = append(out, onionGroup)
		}
	}
	return out
}
