// Package ctlwire reads and writes the lines of Tor's control protocol (control-spec): commands with their
// arguments and data, replies, and events. Bytes in, bytes out: it has no state beside that of a reader.
package ctlwire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

// MaxCommand bounds a command with its data, in bytes. C tor has the same bound.
const MaxCommand = 1 << 20

// ErrTooLong is the error of a command that is longer than the reader takes.
var ErrTooLong = errors.New("the command is too long")

// Command is what a controller asks.
type Command struct {
	Name string // in capitals: the case of a command does not matter
	Args string // the rest of the line, without white space around it
	Data []byte // of a command with "+" before its name: its lines, with "\n" after each; nil: none
	Sent string // the name as it was sent, for a reply that repeats it
}

// Reader reads the commands of one connection.
type Reader struct {
	br    *bufio.Reader
	limit int
}

// NewReader returns a reader of commands of at most limit bytes.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{br: bufio.NewReaderSize(r, 512), limit: limit}
}

// Limit changes the bound for commands from now on.
func (r *Reader) Limit(n int) { r.limit = n }

// line reads one line of at most most bytes, and returns it without its end. LF alone ends it.
func (r *Reader) line(most int) ([]byte, int, error) {
	var line []byte
	for {
		part, err := r.br.ReadSlice('\n')
		if len(line)+len(part) > most {
			return nil, 0, ErrTooLong
		}
		if err == nil && line == nil {
			return bytes.TrimSuffix(part[:len(part)-1], []byte("\r")), len(part), nil
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), len(line), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, 0, io.ErrUnexpectedEOF
		default:
			return nil, 0, err
		}
	}
}

// Next reads a command. The error is io.EOF if the stream ends between two commands.
func (r *Reader) Next() (Command, error) {
	line, read, err := r.line(r.limit)
	if err != nil {
		return Command{}, err
	}
	text := string(line)
	rest, more := strings.CutPrefix(text, "+")
	var c Command
	c.Sent, c.Args = cutWord(rest)
	c.Name = strings.ToUpper(c.Sent)
	if !more {
		return c, nil
	}
	c.Data = []byte{}
	for {
		line, n, err := r.line(r.limit - read)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return Command{}, err
		}
		if read += n; string(line) == "." {
			return c, nil
		}
		c.Data = append(append(c.Data, bytes.TrimPrefix(line, []byte("."))...), '\n')
	}
}

// space is what parts words.
const space = " \t\r\n"

// Cut returns the first word of a command's arguments, and what follows it.
func Cut(args string) (word, rest string) { return cutWord(args) }

// cutWord returns the first word, and what follows it, without white space around either.
func cutWord(s string) (word, rest string) {
	s = strings.Trim(s, space)
	if i := strings.IndexAny(s, space); i >= 0 {
		return s[:i], strings.TrimLeft(s[i:], space)
	}
	return s, ""
}

// httpMethods begin the requests of a browser or another HTTP client.
var httpMethods = []string{"GET", "POST", "CONNECT", "HEAD", "PUT", "OPTIONS", "DELETE", "PATCH", "TRACE"}

// LooksLikeHTTP reports whether a command is the first line of an HTTP request: a web page may make a browser
// send one to this port, with commands in it.
func LooksLikeHTTP(c Command) bool {
	for _, m := range httpMethods {
		if c.Name == m {
			return true
		}
	}
	return strings.Contains(c.Args, " HTTP/")
}
