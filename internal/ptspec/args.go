package ptspec

import (
	"maps"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// Args are a transport's arguments. A key has one value; if it occurs again,
// the first value counts.
type Args map[string]string

// MaxArgs bounds the text of a set of arguments, in bytes.
const MaxArgs = 4096

// splitEscaped cuts s at each sep that does not follow a backslash. It keeps
// the backslashes.
func splitEscaped(s string, sep byte) []string {
	var parts []string
	from := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case sep:
			parts = append(parts, s[from:i])
			from = i + 1
		}
	}
	return append(parts, s[from:])
}

// unescape removes the backslashes that escape a character.
func unescape(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			if i++; i == len(s) {
				return "", fault.New(fault.Config, "an argument ends with a backslash")
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), nil
}

// add parses one key=value.
func (a Args) add(s string) error {
	kv := splitEscaped(s, '=')
	if len(kv) < 2 {
		return fault.New(fault.Config, "an argument has no value")
	}
	k, err := unescape(kv[0])
	if err != nil {
		return err
	}
	v, err := unescape(strings.Join(kv[1:], "="))
	if err != nil {
		return err
	}
	if k == "" {
		return fault.New(fault.Config, "an argument has no key")
	}
	if _, ok := a[k]; !ok {
		a[k] = v
	}
	return nil
}

// ParseClientArgs reads the arguments that come with a SOCKS request:
// "k=v;k=v", with backslash escapes (pt-spec 3.5).
func ParseClientArgs(s string) (Args, error) {
	if len(s) > MaxArgs {
		return nil, fault.New(fault.Config, "the arguments are longer than %d bytes", MaxArgs)
	}
	a := Args{}
	if s == "" {
		return a, nil
	}
	for _, p := range splitEscaped(s, ';') {
		if err := a.add(p); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// ParseServerOptions reads TOR_PT_SERVER_TRANSPORT_OPTIONS:
// "transport:k=v;transport:k=v", with backslash escapes (pt-spec 3.2.3).
func ParseServerOptions(s string) (map[string]Args, error) {
	if len(s) > 16*MaxArgs {
		return nil, fault.New(fault.Config, "the options are longer than %d bytes", 16*MaxArgs)
	}
	all := map[string]Args{}
	if s == "" {
		return all, nil
	}
	for _, p := range splitEscaped(s, ';') {
		tv := splitEscaped(p, ':')
		if len(tv) < 2 {
			return nil, fault.New(fault.Config, "a transport option names no transport")
		}
		name, err := unescape(tv[0])
		if err != nil {
			return nil, err
		}
		if all[name] == nil {
			all[name] = Args{}
		}
		if err := all[name].add(strings.Join(tv[1:], ":")); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// MethodText returns the arguments in the form of an SMETHOD line: "k=v,k=v", with
// backslash escapes, sorted.
func (a Args) MethodText() string {
	esc := strings.NewReplacer(`\`, `\\`, `,`, `\,`, `=`, `\=`)
	var parts []string
	for _, k := range a.Keys() {
		parts = append(parts, esc.Replace(k)+"="+esc.Replace(a[k]))
	}
	return strings.Join(parts, ",")
}

// ParseMethodText reads what MethodText writes.
func ParseMethodText(s string) (Args, error) {
	if len(s) > MaxArgs {
		return nil, fault.New(fault.Config, "the arguments are longer than %d bytes", MaxArgs)
	}
	a := Args{}
	for _, p := range splitEscaped(s, ',') {
		if p == "" {
			continue
		}
		if err := a.add(p); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// ClientText returns the arguments in the form of a SOCKS request: "k=v;k=v", with
// backslash escapes, sorted (pt-spec 3.5).
func (a Args) ClientText() string {
	key := strings.NewReplacer(`\`, `\\`, `;`, `\;`, `=`, `\=`)
	value := strings.NewReplacer(`\`, `\\`, `;`, `\;`)
	var parts []string
	for _, k := range a.Keys() {
		parts = append(parts, key.Replace(k)+"="+value.Replace(a[k]))
	}
	return strings.Join(parts, ";")
}

// CheckLine reports what cannot stand in a bridge line, or is too long for one.
func (a Args) CheckLine() error {
	for k, v := range a {
		odd := func(r rune) bool { return r <= ' ' || r == 0x7f }
		if k == "" || strings.Contains(k, "=") || strings.ContainsFunc(k+v, odd) {
			return fault.New(fault.Config, "the argument %.40q cannot be in a bridge line", k)
		}
	}
	if n := len(a.ClientText()); n > MaxClientText {
		return fault.New(fault.Config, "the arguments have %d bytes; the limit is %d", n, MaxClientText)
	}
	return nil
}

// MaxClientText is how many bytes of arguments fit into the user name and the password of
// a SOCKS request.
const MaxClientText = 255 + 255

// serverOptions writes TOR_PT_SERVER_TRANSPORT_OPTIONS.
func serverOptions(all map[string]Args) string {
	esc := strings.NewReplacer(`\`, `\\`, `:`, `\:`, `;`, `\;`, `=`, `\=`)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, k := range all[name].Keys() {
			parts = append(parts, name+":"+esc.Replace(k)+"="+esc.Replace(all[name][k]))
		}
	}
	return strings.Join(parts, ";")
}

// Keys returns the keys, sorted.
func (a Args) Keys() []string { return slices.Sorted(maps.Keys(a)) }

// ValidName reports whether s can name a transport: a C identifier (pt-spec
// 3.1), or one with hyphens, which some transports have.
func ValidName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != "" && len(s) <= 64
}
