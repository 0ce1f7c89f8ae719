package netdoc

import (
	"bytes"
	"crypto/sha3"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// MakeDiff makes the diff from one consensus to another of the same flavor. Both
// list relays in the order of identities, so it matches entries in time linear in
// the size of both.
func MakeDiff(from, to []byte) ([]byte, error) {
	was, err := SHA3Signed(from)
	if err != nil {
		return nil, err
	}
	is := sha3.Sum256(to)
	a, err := diffBlocks(from)
	if err != nil {
		return nil, err
	}
	b, err := diffBlocks(to)
	if err != nil {
		return nil, err
	}
	var edits []edit
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch order := blockOrder(a, i, b, j); {
		case order < 0:
			edits = append(edits, edit{a[i].line, len(a[i].lines), nil})
			i++
		case order > 0:
			edits = append(edits, edit{lineOf(a, i), 0, b[j].lines})
			j++
		default:
			edits = appendBlockEdits(edits, a[i], b[j])
			i++
			j++
		}
	}
	out := appendLine(nil, diffStart, "1")
	out = appendLine(out, "hash", strings.ToUpper(hex.EncodeToString(was[:])), strings.ToUpper(hex.EncodeToString(is[:])))
	return appendEdits(out, joinEdits(edits)), nil
}

// diffBlock is a run of lines that is first compared as a whole: the preamble,
// one relay, the footer, or the signatures.
type diffBlock struct {
	section int
	id      string // a relay's identity, decoded, so that it sorts like the relays
	line    int    // number of the first line, from 1
	lines   [][]byte
}

// Sections, in the order of a consensus.
const (
	sectionPreamble = iota
	sectionRelays
	sectionFooter
	sectionSignatures
)

func diffBlocks(doc []byte) ([]diffBlock, error) {
	var blocks []diffBlock
	cur := diffBlock{section: sectionPreamble, line: 1}
	n := 0
	for line := range bytes.Lines(doc) {
		n++
		next := cur
		switch {
		case cur.section == sectionSignatures:
		case bytes.HasPrefix(line, []byte("r ")):
			next.section = sectionRelays
			a := Args(line[2:])
			a.Next()
			var id [20]byte
			if err := a.base64("identity", id[:]); err != nil {
				return nil, fault.New(fault.Directory, "consensus: line %d: %w", n, err)
			}
			next.id = string(id[:])
		case bytes.HasPrefix(line, []byte("directory-footer")):
			next.section, next.id = sectionFooter, ""
		case bytes.HasPrefix(line, []byte("directory-signature ")):
			next.section, next.id = sectionSignatures, ""
		}
		if next.section != cur.section || next.id != cur.id {
			blocks = append(blocks, cur)
			cur = diffBlock{section: next.section, id: next.id, line: n}
		}
		if string(line) == ".\n" {
			return nil, fault.New(fault.Directory, "consensus: line %d is a single dot, which a diff cannot contain", n)
		}
		cur.lines = append(cur.lines, line)
	}
	if cur.section != sectionSignatures {
		return nil, fault.New(fault.Directory, "consensus: no signature")
	}
	return append(blocks, cur), nil
}

// blockOrder compares the next block of both documents; a document without
// further blocks comes last.
func blockOrder(a []diffBlock, i int, b []diffBlock, j int) int {
	switch {
	case i == len(a):
		return 1
	case j == len(b):
		return -1
	case a[i].section != b[j].section:
		return a[i].section - b[j].section
	}
	return strings.Compare(a[i].id, b[j].id)
}

// lineOf returns the number of the line that block i begins with.
func lineOf(a []diffBlock, i int) int {
	if i < len(a) {
		return a[i].line
	}
	last := a[len(a)-1]
	return last.line + len(last.lines)
}

// edit replaces del lines from line on with add.
type edit struct {
	line, del int
	add       [][]byte
}

// appendBlockEdits compares two blocks of the same relay or section. Equal blocks
// need no edit. The signatures are always replaced, because other caches may have
// the old ones in another encoding. For other blocks, the common lines at the
// beginning and at the end stay.
func appendBlockEdits(edits []edit, a, b diffBlock) []edit {
	if a.section == sectionSignatures {
		return append(edits, edit{a.line, len(a.lines), b.lines})
	}
	x, y, line := a.lines, b.lines, a.line
	for len(x) > 0 && len(y) > 0 && bytes.Equal(x[0], y[0]) {
		x, y, line = x[1:], y[1:], line+1
	}
	for len(x) > 0 && len(y) > 0 && bytes.Equal(x[len(x)-1], y[len(y)-1]) {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	if len(x) != len(y) {
		return append(edits, edit{line, len(x), y})
	}
	for i := range x { // mostly a few changed numbers
		if !bytes.Equal(x[i], y[i]) {
			edits = append(edits, edit{line + i, 1, y[i : i+1]})
		}
	}
	return edits
}

// joinEdits joins neighbouring edits into one.
func joinEdits(edits []edit) []edit {
	var out []edit
	for _, e := range edits {
		if n := len(out); n > 0 && out[n-1].line+out[n-1].del == e.line {
			out[n-1].del += e.del
			out[n-1].add = slices.Concat(out[n-1].add, e.add)
			continue
		}
		out = append(out, e)
	}
	return out
}

// appendEdits writes the edits from back to front. The first edit is always that
// of the signatures: it deletes all lines to the end.
func appendEdits(out []byte, edits []edit) []byte {
	for i := len(edits) - 1; i >= 0; i-- {
		e := edits[i]
		last := e.line + e.del - 1
		if i == len(edits)-1 {
			out = append(strconv.AppendInt(out, int64(e.line), 10), ",$d\n"...)
			e.del = 0
		}
		switch {
		case e.del == 0 && len(e.add) == 0:
			continue
		case e.del == 0:
			out = append(strconv.AppendInt(out, int64(e.line-1), 10), "a\n"...)
		default:
			out = strconv.AppendInt(out, int64(e.line), 10)
			if e.del > 1 {
				out = strconv.AppendInt(append(out, ','), int64(last), 10)
			}
			if len(e.add) == 0 {
				out = append(out, "d\n"...)
				continue
			}
			out = append(out, "c\n"...)
		}
		for _, l := range e.add {
			out = append(out, l...)
		}
		out = append(out, ".\n"...)
	}
	return out
}
