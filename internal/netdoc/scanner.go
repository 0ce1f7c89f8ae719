// Package netdoc parses and encodes the directory documents of the Tor
// protocol: consensuses, authority key certificates, microdescriptors, router
// and extra-info descriptors, and consensus diffs (dir-spec).
//
// Documents are byte slices. The scanner returns parts of them without copying;
// parsed values keep copies. Nothing here reads a clock: checks that need the time
// take it as a parameter.
package netdoc

import (
	"bytes"
	"encoding/base64"

	"github.com/chivenet/chive/internal/fault"
)

// Item is one item of a document (dir-spec, "document meta-format"): a keyword
// line and the object below it, if there is one. Its slices alias the document.
type Item struct {
	Keyword []byte
	Args    Args   // the rest of the keyword line
	ObjType []byte // such as "RSA PUBLIC KEY"; nil without an object
	obj     []byte // base64 text between the object's BEGIN and END lines
	Line    int    // of the keyword, from 1
	Start   int    // offset of the keyword's line in the document
	LineEnd int    // offset after the keyword line's newline
	End     int    // offset after the item, object included
}

// Is reports whether the item's keyword is k.
func (it *Item) Is(k string) bool { return string(it.Keyword) == k }

// Args is the rest of a keyword line; Next takes its first word.
type Args []byte

// Next takes the first word and reports whether there was one.
func (a *Args) Next() ([]byte, bool) {
	s := *a
	i := 0
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	j := i
	for j < len(s) && s[j] != ' ' && s[j] != '\t' {
		j++
	}
	*a = s[j:]
	return s[i:j], j > i
}

// Rest returns the remaining text without blanks at its ends.
func (a Args) Rest() []byte { return bytes.Trim(a, " \t") }

// line returns the remaining text as C tor keeps it: with the blanks at its end.
// Authorities copy such text from votes to consensuses, and must copy the same.
func (a Args) line() []byte { return bytes.TrimLeft(a, " \t\r") }

// Scanner reads a document item by item. It allocates only errors.
type Scanner struct {
	doc  string
	b    []byte
	off  int
	line int
	err  error
	item Item
}

// NewScanner returns a scanner over b; doc names the kind of document in
// errors.
func NewScanner(doc string, b []byte) *Scanner { return &Scanner{doc: doc, b: b} }

// Err returns the first error, of kind fault.Directory, or nil.
func (s *Scanner) Err() error { return s.err }

// Next reads the next item; ok is false at the end of the document or after an
// error. The item is valid until the next call.
func (s *Scanner) Next() (*Item, bool) {
	line, start, ok := s.readLine()
	for ok && len(line) == 0 { // C tor accepts blank lines between items
		line, start, ok = s.readLine()
	}
	if !ok {
		return nil, false
	}
	n := 0
	for n < len(line) && isKeywordChar(line[n]) {
		n++
	}
	s.item = Item{Keyword: line[:n], Line: s.line, Start: start, LineEnd: s.off, End: s.off}
	if n == 0 && line[0] == '@' {
		if n = bytes.IndexByte(line, ' '); n < 0 {
			n = len(line)
		}
		s.item.Keyword = line[:n]
	}
	if n == 0 || (n < len(line) && line[n] != ' ' && line[n] != '\t') {
		s.fail(s.line, "", "%q does not begin with a keyword", clip(line))
		return nil, false
	}
	s.item.Args = Args(line[n:])
	if bytes.HasPrefix(s.b[s.off:], beginObject) && !s.readObject() {
		return nil, false
	}
	return &s.item, true
}

// Fail records an error in the item that Next returned last, unless the scanner
// has an error already. It returns the scanner's error.
func (s *Scanner) Fail(format string, args ...any) error {
	s.fail(s.item.Line, string(clip(s.item.Keyword)), format, args...)
	return s.err
}

func (s *Scanner) fail(line int, keyword, format string, args ...any) {
	if s.err != nil {
		return
	}
	cause := fault.New(fault.Directory, format, args...)
	if keyword == "" {
		s.err = fault.New(fault.Directory, "%s: line %d: %w", s.doc, line, cause)
		return
	}
	s.err = fault.New(fault.Directory, "%s: line %d: %s: %w", s.doc, line, keyword, cause)
}

// readLine returns the next line without its newline.
func (s *Scanner) readLine() (line []byte, start int, ok bool) {
	if s.err != nil || s.off == len(s.b) {
		return nil, s.off, false
	}
	start = s.off
	s.line++
	n := bytes.IndexByte(s.b[start:], '\n')
	if n < 0 {
		s.fail(s.line, "", "the document ends inside a line")
		return nil, start, false
	}
	s.off += n + 1
	line = s.b[start : start+n : start+n]
	if bytes.IndexByte(line, 0) >= 0 {
		s.fail(s.line, "", "NUL byte")
		return nil, start, false
	}
	return line, start, true
}

var (
	beginObject = []byte("-----BEGIN ")
	endObject   = []byte("-----END ")
	dashes      = []byte("-----")
)

// readObject reads the object that follows the keyword line.
func (s *Scanner) readObject() bool {
	line, _, ok := s.readLine()
	if !ok {
		return false
	}
	typ := line[len(beginObject):]
	if !bytes.HasSuffix(typ, dashes) || len(typ) == len(dashes) {
		s.Fail("malformed first line of an object")
		return false
	}
	typ = typ[:len(typ)-len(dashes)]
	start := s.off
	for {
		line, at, ok := s.readLine()
		if !ok {
			s.Fail("the object does not end")
			return false
		}
		if !bytes.HasPrefix(line, endObject) {
			continue
		}
		end := line[len(endObject):]
		if !bytes.HasSuffix(end, dashes) || !bytes.Equal(end[:len(end)-len(dashes)], typ) {
			s.Fail("the end of a %q object names another type", clip(typ))
			return false
		}
		s.item.ObjType, s.item.obj, s.item.End = typ, s.b[start:at], s.off
		return true
	}
}

// maxObject bounds a decoded object; an onion service's encrypted part is the
// largest kind.
const maxObject = 1 << 17

// Object decodes the item's object, which must be of one of the given types.
func (it *Item) Object(types ...string) ([]byte, error) {
	if it.ObjType == nil {
		return nil, fault.New(fault.Directory, "an object is missing")
	}
	ok := len(types) == 0
	for _, t := range types {
		ok = ok || string(it.ObjType) == t
	}
	if !ok {
		return nil, fault.New(fault.Directory, "object of type %q, not %q", clip(it.ObjType), types)
	}
	if len(it.obj) > maxObject*3/2 {
		return nil, fault.New(fault.Resource, "object of %d characters", len(it.obj))
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(it.obj)))
	n, err := base64.StdEncoding.Decode(out, it.obj)
	if err != nil {
		return nil, fault.New(fault.Directory, "object: %w", err)
	}
	return out[:n:n], nil
}

func isKeywordChar(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
}

// clip shortens text of documents, which may be hostile, for errors.
func clip(b []byte) []byte {
	if len(b) > 60 {
		return b[:60]
	}
	return b
}

// AppendObject writes an object: base64 in lines of 64 characters.
func AppendObject(dst []byte, typ string, body []byte) []byte {
	dst = append(append(append(dst, beginObject...), typ...), "-----\n"...)
	for len(body) > 0 {
		n := min(48, len(body))
		dst = base64.StdEncoding.AppendEncode(dst, body[:n])
		dst = append(dst, '\n')
		body = body[n:]
	}
	return append(append(append(dst, endObject...), typ...), "-----\n"...)
}
