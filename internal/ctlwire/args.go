package ctlwire

import (
	"errors"
	"fmt"
	"strings"
)

// Keyword is one argument: KEY=VALUE, or one of the two alone.
type Keyword struct {
	Key, Value string
	Quoted     bool // the value stood in quotes
	HasValue   bool // there was an equals sign, or the argument is a value
}

// Syntax says which forms of arguments a command takes.
type Syntax uint8

// The forms, as bits.
const (
	KeyOptional   Syntax = 1 << iota // VALUE alone
	ValueOptional                    // KEY alone
	CString                          // quotes have C's escapes, as "\n"; without it, a backslash only takes the next character as it is
)

var (
	errKeywords = errors.New("cannot parse the keyword arguments")
	errQuote    = errors.New("a quoted string does not end, or something follows its end at once")
)

// Keywords reads the arguments of a command.
func Keywords(s string, syntax Syntax) ([]Keyword, error) {
	var out []Keyword
	for {
		s = strings.TrimLeft(s, space)
		if s == "" {
			return out, nil
		}
		var k Keyword
		end := strings.IndexAny(s, space)
		if end < 0 {
			end = len(s)
		}
		eq := strings.IndexByte(s[:end], '=')
		quote := strings.IndexByte(s[:end], '"')
		switch {
		case eq >= 0 && (quote < 0 || eq < quote):
			k.Key, k.HasValue = s[:eq], true
			s = s[eq+1:]
			if k.Key == "" {
				return nil, errKeywords
			}
		case syntax&KeyOptional != 0:
			k.HasValue = true
		case syntax&ValueOptional != 0 && quote < 0:
			k.Key = s[:end]
			s = s[end:]
			out = append(out, k)
			continue
		default:
			return nil, errKeywords
		}
		if strings.HasPrefix(s, `"`) {
			value, n, err := unquote(s, syntax&CString != 0)
			if err != nil {
				return nil, err
			}
			if s = s[n:]; s != "" && !strings.ContainsRune(space, rune(s[0])) {
				return nil, errQuote
			}
			k.Value, k.Quoted = value, true
		} else {
			end = strings.IndexAny(s, space)
			if end < 0 {
				end = len(s)
			}
			k.Value, s = s[:end], s[end:]
		}
		out = append(out, k)
	}
}

// unquote reads a quoted string at the start of s, and returns how many bytes it takes.
func unquote(s string, escapes bool) (string, int, error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), i + 1, nil
		case c != '\\':
			b.WriteByte(c)
		case i+1 == len(s):
			return "", 0, errQuote
		case !escapes:
			i++
			b.WriteByte(s[i])
		default:
			c, n, err := escape(s[i+1:])
			if err != nil {
				return "", 0, err
			}
			b.WriteByte(c)
			i += n
		}
	}
	return "", 0, errQuote
}

// escape reads what follows a backslash, and returns how many bytes it takes.
func escape(s string) (byte, int, error) {
	switch c := s[0]; c {
	case 'n':
		return '\n', 1, nil
	case 't':
		return '\t', 1, nil
	case 'r':
		return '\r', 1, nil
	case '"', '\'', '\\':
		return c, 1, nil
	case 'x', 'X':
		if len(s) >= 3 {
			hi, lo := hexDigit(s[1]), hexDigit(s[2])
			if hi >= 0 && lo >= 0 {
				return notNUL(hi<<4|lo, 3)
			}
		}
	default:
		n, v := 0, 0
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			v, n = v<<3|int(s[n]-'0'), n+1
		}
		if n > 0 && v < 256 {
			return notNUL(v, n)
		}
	}
	return 0, 0, fmt.Errorf("a quoted string has an unknown escape")
}

// notNUL refuses the byte that would end a string in C tor.
func notNUL(v, n int) (byte, int, error) {
	if v == 0 {
		return 0, 0, fmt.Errorf("a quoted string has a NUL")
	}
	return byte(v), n, nil
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// Quote returns a quoted string with C's escapes, which fits on a line whatever is in it.
func Quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\\' || c == '"':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
