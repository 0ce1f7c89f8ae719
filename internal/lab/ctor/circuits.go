package ctor

import (
	"context"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// Circuit is one circuit as the control port reports it (control-spec, CIRC).
type Circuit struct {
	ID      string
	Status  string // LAUNCHED, BUILT, GUARD_WAIT, EXTENDED, FAILED, CLOSED
	Path    []Hop
	Purpose string
	Fields  map[string]string // the key=value fields, Purpose among them
}

// Hop is one relay of a circuit's path.
type Hop struct {
	RSA  ident.RSAID
	Name string
}

// Stream is one stream as the control port reports it (control-spec, STREAM).
type Stream struct {
	ID      string
	Status  string
	Circuit string // "0" while unattached
	Target  string // host:port as the application asked for it
	Fields  map[string]string
}

// ParseCircuit reads a line of circuit-status or the text after CIRC in an event.
func ParseCircuit(s string) (Circuit, error) {
	f := splitQuoted(s)
	if len(f) < 2 {
		return Circuit{}, fault.New(fault.Protocol, "circuit line %q", s)
	}
	c := Circuit{ID: f[0], Status: f[1], Fields: map[string]string{}}
	for i, word := range f[2:] {
		if i == 0 && strings.HasPrefix(word, "$") {
			for h := range strings.SplitSeq(word, ",") {
				fp, name, _ := strings.Cut(h, "~")
				id, err := ident.ParseRSAID(fp)
				if err != nil {
					return Circuit{}, fault.New(fault.Protocol, "circuit line %q: %w", s, err)
				}
				c.Path = append(c.Path, Hop{id, name})
			}
			continue
		}
		if k, v, ok := strings.Cut(word, "="); ok {
			c.Fields[k] = strings.Trim(v, `"`)
		}
	}
	c.Purpose = c.Fields["PURPOSE"]
	return c, nil
}

// ParseStream reads a line of stream-status or the text after STREAM in an event.
func ParseStream(s string) (Stream, error) {
	f := splitQuoted(s)
	if len(f) < 4 {
		return Stream{}, fault.New(fault.Protocol, "stream line %q", s)
	}
	st := Stream{ID: f[0], Status: f[1], Circuit: f[2], Target: f[3], Fields: map[string]string{}}
	for _, word := range f[4:] {
		if k, v, ok := strings.Cut(word, "="); ok {
			st.Fields[k] = strings.Trim(v, `"`)
		}
	}
	return st, nil
}

// splitQuoted splits at blanks that are not inside double quotes.
func splitQuoted(s string) []string {
	quoted, escaped := false, false
	return strings.FieldsFunc(s, func(r rune) bool {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quoted:
			escaped = true
		case r == '"':
			quoted = !quoted
		}
		return !quoted && r == ' '
	})
}

// Circuits lists the tor's circuits.
func (c *Control) Circuits(ctx context.Context) ([]Circuit, error) {
	v, err := c.GetInfo(ctx, "circuit-status")
	if err != nil {
		return nil, err
	}
	var out []Circuit
	for line := range strings.Lines(v) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		circ, err := ParseCircuit(line)
		if err != nil {
			return nil, err
		}
		out = append(out, circ)
	}
	return out, nil
}

// Streams lists the tor's streams.
func (c *Control) Streams(ctx context.Context) ([]Stream, error) {
	v, err := c.GetInfo(ctx, "stream-status")
	if err != nil {
		return nil, err
	}
	var out []Stream
	for line := range strings.Lines(v) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		st, err := ParseStream(line)
		if err != nil {
			return nil, err
		}
		out = append(out, st)
	}
	return out, nil
}

// Extend asks for a new circuit through the given relays and returns its
// identifier; CIRC events report its progress.
func (c *Control) Extend(ctx context.Context, path ...*Node) (string, error) {
	hops := make([]string, len(path))
	for i, n := range path {
		hops[i] = "$" + n.ID.RSA.String()
	}
	lines, err := c.Command(ctx, "EXTENDCIRCUIT 0 "+strings.Join(hops, ","))
	if err != nil {
		return "", err
	}
	id, ok := strings.CutPrefix(lines[0], "EXTENDED ")
	if !ok {
		return "", fault.New(fault.Protocol, "control port answered EXTENDCIRCUIT with %q", lines[0])
	}
	return id, nil
}

// CloseCircuit closes a circuit.
func (c *Control) CloseCircuit(ctx context.Context, id string) error {
	_, err := c.Command(ctx, "CLOSECIRCUIT "+id)
	return err
}
