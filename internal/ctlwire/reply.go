package ctlwire

import (
	"fmt"
	"strings"
)

// Status codes of replies (control-spec, "Replies").
const (
	OK               = 250
	SyntaxError      = 500 // of a line as a whole
	BadCommand       = 510
	Unimplemented    = 511
	BadArgument      = 512 // its syntax
	BadValue         = 513
	NeedsAuth        = 514
	BadAuth          = 515
	Failed           = 551 // what was asked, inside this program
	Unknown          = 552 // what was named
	BadConfig        = 553
	AsyncEvent       = 650
	maxLine, minCode = 1 << 20, 100
)

// Error is a reply that says why a command was not obeyed.
type Error struct {
	Code int
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Text) }

// Errorf returns an Error.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// The separators of reply lines.
const (
	End  = ' ' // the last line
	Mid  = '-' // others follow
	Data = '+' // data follows, and then others
)

// AppendLine appends a line of a reply or an event. Text that would be several lines is an error: part of it
// may come from others, and a controller would take the next line for another reply.
func AppendLine(b []byte, code int, sep byte, text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n\x00") {
		return b, fmt.Errorf("a line of a reply has a line break or a NUL")
	}
	if code < minCode || code > 999 || len(text) > maxLine {
		return b, fmt.Errorf("a line of a reply has the code %d and %d bytes", code, len(text))
	}
	b = fmt.Appendf(b, "%d%c", code, sep)
	return append(append(b, text...), "\r\n"...), nil
}

// AppendDataLine appends a line of data.
func AppendDataLine(b []byte, text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n\x00") {
		return b, fmt.Errorf("a line of data has a line break or a NUL")
	}
	if strings.HasPrefix(text, ".") {
		b = append(b, '.')
	}
	return append(append(b, text...), "\r\n"...), nil
}

// AppendDataEnd appends the line that ends data.
func AppendDataEnd(b []byte) []byte { return append(b, ".\r\n"...) }

// OneLine replaces what does not fit on a line, for texts of errors.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
