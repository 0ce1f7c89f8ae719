package pt

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ptspec"
)

// maxLine bounds one line of a transport process, in bytes.
const maxLine = 16 << 10

// message is one line of a transport process (pt-spec 3.3). If the keyword is
// unknown, all other fields are empty; such lines are ignored.
type message struct {
	keyword string // the first word; "CMETHODS DONE" and similar ones have two words
	name    string // CMETHOD, SMETHOD and their errors: the transport
	method  Method // CMETHOD, SMETHOD
	text    string // text of the error lines; LOG: MESSAGE
	level   slog.Level
	fields  map[string]string // STATUS
}

// Method describes how a transport process offers one transport.
type Method struct {
	Proto string         // client: "socks4" or "socks5"
	Addr  netip.AddrPort // where it listens
	Args  ptspec.Args    // server: arguments that clients need
}

// parseMessage reads one line, without its end.
func parseMessage(line string) (message, error) {
	word, rest, _ := strings.Cut(line, " ")
	m := message{keyword: word}
	switch word {
	case "VERSION", "VERSION-ERROR", "ENV-ERROR", "PROXY-ERROR":
		m.text = rest
	case "PROXY", "CMETHODS", "SMETHODS":
		if rest != "DONE" {
			return m, fault.New(fault.Protocol, "%s is not followed by DONE", word)
		}
		m.keyword = word + " " + rest
	case "CMETHOD-ERROR", "SMETHOD-ERROR":
		m.name, m.text, _ = strings.Cut(rest, " ")
	case "CMETHOD", "SMETHOD":
		return m, m.parseMethod(rest)
	case "LOG":
		return m, m.parseLog(rest)
	case "STATUS":
		var err error
		m.fields, err = parseFields(rest)
		return m, err
	}
	return m, nil
}

func (m *message) parseMethod(rest string) (err error) {
	f := strings.Fields(rest)
	if m.keyword == "CMETHOD" {
		if len(f) < 3 {
			return fault.New(fault.Protocol, "CMETHOD: too few words")
		}
		m.method.Proto = f[1]
		if f[1] != "socks4" && f[1] != "socks5" {
			return fault.New(fault.Protocol, "CMETHOD: the protocol %.20q is neither socks4 nor socks5", f[1])
		}
		f = append(f[:1], f[2:]...)
	}
	if len(f) < 2 {
		return fault.New(fault.Protocol, "%s: too few words", m.keyword)
	}
	m.name = f[0]
	if !ptspec.ValidName(m.name) {
		return fault.New(fault.Protocol, "%s: %.40q is not a transport's name", m.keyword, m.name)
	}
	if m.method.Addr, err = netip.ParseAddrPort(f[1]); err != nil || m.method.Addr.Port() == 0 {
		return fault.New(fault.Protocol, "%s: %.60q is not <address>:<port>", m.keyword, f[1])
	}
	for _, opt := range f[2:] { // other options are for later versions
		if s, ok := strings.CutPrefix(opt, "ARGS:"); ok && m.keyword == "SMETHOD" {
			if m.method.Args, err = ptspec.ParseMethodText(s); err != nil {
				return fault.New(fault.Protocol, "SMETHOD: %w", err)
			}
		}
	}
	return nil
}

func (m *message) parseLog(rest string) error {
	f, err := parseFields(rest)
	if err != nil {
		return err
	}
	m.text = f["MESSAGE"]
	switch f["SEVERITY"] {
	case "error":
		m.level = slog.LevelError
	case "warning":
		m.level = slog.LevelWarn
	case "notice", "info":
		m.level = slog.LevelInfo
	case "debug":
		m.level = slog.LevelDebug
	default:
		return fault.New(fault.Protocol, "LOG: the severity %.20q is unknown", f["SEVERITY"])
	}
	return nil
}

// parseFields reads KEY=VALUE words, where a value may be a quoted C string
// (pt-spec 3.3.4 and 3.3.5).
func parseFields(s string) (map[string]string, error) {
	out := map[string]string{}
	for s = strings.TrimLeft(s, " "); s != ""; s = strings.TrimLeft(s, " ") {
		key, rest, ok := strings.Cut(s, "=")
		if !ok || key == "" || strings.ContainsAny(key, ` "`) {
			return nil, fault.New(fault.Protocol, "a word is not KEY=VALUE")
		}
		var value string
		if strings.HasPrefix(rest, `"`) {
			var err error
			if value, rest, err = unquote(rest[1:]); err != nil {
				return nil, err
			}
			if rest != "" && rest[0] != ' ' {
				return nil, fault.New(fault.Protocol, "a quoted value is followed by %q", rest[0])
			}
		} else {
			value, rest, _ = strings.Cut(rest, " ")
		}
		out[key], s = value, rest
	}
	return out, nil
}

// unquote reads a CString after its opening quote (control-spec 2.1), and
// returns the text after the closing quote.
func unquote(s string) (value, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], nil
		case '\\':
			if i++; i == len(s) {
				return "", "", fault.New(fault.Protocol, "a quoted value does not end")
			}
			switch s[i] {
			case 'n':
				b.WriteByte('\n')
			case 'r':
				b.WriteByte('\r')
			case 't':
				b.WriteByte('\t')
			case '0', '1', '2', '3', '4', '5', '6', '7':
				v := 0
				j := i
				for ; j < len(s) && j < i+3 && s[j] >= '0' && s[j] <= '7'; j++ {
					v = v<<3 | int(s[j]-'0')
				}
				i = j - 1
				b.WriteByte(byte(v))
			default:
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", fault.New(fault.Protocol, "a quoted value does not end")
}

var errLongLine = fault.New(fault.Protocol, "a line of more than %d bytes", maxLine)

// readLine reads one line of at most maxLine bytes. r's buffer must have that
// size.
func readLine(r *bufio.Reader) (string, error) {
	b, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", errLongLine
	}
	if err != nil {
		return "", err // a line without an end does not count
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// lineReader returns a reader for readLine.
func lineReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, maxLine) }
