package netdoc

import (
	"bytes"
	"crypto/sha3"

	"github.com/chivenet/chive/internal/fault"
)

const diffStart = "network-status-diff-version"

// IsDiff reports whether a response is a consensus diff, and not a consensus.
func IsDiff(b []byte) bool { return bytes.HasPrefix(b, []byte(diffStart+" ")) }

// MaxConsensus bounds a consensus that is fetched, and also a diff and what it makes of
// a consensus, in bytes. The consensus of the public network has about 3 MB.
const MaxConsensus = 32 << 20

// SHA3Signed returns the digest by which diffs identify a consensus: SHA3-256 of
// its signed part. A text without signatures has no such digest.
func SHA3Signed(consensus []byte) ([32]byte, error) {
	const mark = "\ndirectory-signature "
	i := bytes.Index(consensus, []byte(mark))
	if i < 0 {
		return [32]byte{}, fault.New(fault.Directory, "consensus: no signature")
	}
	return sha3.Sum256(consensus[:i+len(mark)]), nil
}

// ApplyDiff applies a consensus diff (dir-spec, "consensus diffs" and "limited ed
// diff format") to the consensus that it was made from, and checks that the
// result has the digest that the diff names. It holds no more than both documents
// have: a command cannot copy lines, and the number of commands is bounded.
func ApplyDiff(from, diff []byte) ([]byte, error) {
	if len(diff) > MaxConsensus {
		return nil, fault.New(fault.Resource, "consensus diff: it has more than %d bytes", MaxConsensus)
	}
	s := diffScanner{b: diff}
	want, err := s.header(from)
	if err != nil {
		return nil, err
	}
	old := lineStarts(from)
	var hunks []hunk
	most := 2*len(old) + 1 // one for each line, and an append before and after each
	last := len(old)       // commands go from back to front
	size := len(from)
	for {
		h, ok, err := s.command(last)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		last = h.from - 1
		size += len(h.text)
		if len(hunks) == most {
			return nil, fault.New(fault.Resource, "consensus diff: more than %d commands for %d lines", most, len(old))
		}
		if size > MaxConsensus {
			return nil, fault.New(fault.Resource, "consensus diff: the consensus and what it adds have more than %d bytes", MaxConsensus)
		}
		hunks = append(hunks, h)
	}
	out := make([]byte, 0, size)
	next := 1 // the first line of the old document that is not copied or replaced yet
	for i := len(hunks) - 1; i >= 0; i-- {
		h := hunks[i]
		out = append(out, from[lineAt(old, next, len(from)):lineAt(old, h.from, len(from))]...)
		out = append(out, h.text...)
		next = h.to + 1
	}
	out = append(out, from[lineAt(old, next, len(from)):]...)
	if got := sha3.Sum256(out); got != want {
		return nil, fault.New(fault.Directory, "consensus diff: the result does not have the digest that the diff names")
	}
	return out, nil
}

// lineStarts returns the offset of every line.
func lineStarts(b []byte) []int {
	starts := make([]int, 0, len(b)/60+1)
	for off := 0; off < len(b); {
		starts = append(starts, off)
		n := bytes.IndexByte(b[off:], '\n')
		if n < 0 {
			break
		}
		off += n + 1
	}
	return starts
}

// lineAt returns the offset of line n, counted from 1. The line after the last
// one begins at end.
func lineAt(starts []int, n, end int) int {
	if n > len(starts) {
		return end
	}
	return starts[n-1]
}

// hunk replaces the lines [from, to] of the old document by text. An append after
// line n has from = n+1 and to = n.
type hunk struct {
	from, to int
	text     []byte
}

type diffScanner struct {
	b    []byte
	line int
}

func (s *diffScanner) fail(format string, args ...any) error {
	return fault.New(fault.Directory, "consensus diff: line %d: %w", s.line, fault.New(fault.Directory, format, args...))
}

func (s *diffScanner) next() ([]byte, bool) {
	if len(s.b) == 0 {
		return nil, false
	}
	s.line++
	line, rest := cutByte(s.b, '\n')
	s.b = rest
	return line, true
}

// header reads the first two lines, checks the digest of the old consensus
// and returns the new one's.
func (s *diffScanner) header(from []byte) (want [32]byte, err error) {
	line, _ := s.next()
	if string(line) != diffStart+" 1" {
		return want, s.fail("%q is not a consensus diff of version 1", clip(line))
	}
	line, _ = s.next()
	a := Args(line)
	if w, _ := a.Next(); string(w) != "hash" {
		return want, s.fail("no hash line")
	}
	var was [32]byte
	if err := a.hex("digest", was[:]); err != nil {
		return want, s.fail("%w", err)
	}
	if err := a.hex("digest", want[:]); err != nil {
		return want, s.fail("%w", err)
	}
	is, err := SHA3Signed(from)
	if err != nil {
		return want, err
	}
	if is != was {
		return want, s.fail("it was made from another consensus")
	}
	return want, nil
}

// command reads one ed command and its block. Earlier commands have already
// changed the lines after last.
func (s *diffScanner) command(last int) (h hunk, ok bool, err error) {
	line, ok := s.next()
	if !ok {
		return h, false, nil
	}
	if len(line) < 2 {
		return h, false, s.fail("%q is not a command", clip(line))
	}
	cmd := line[len(line)-1]
	loText, hiText := cutByte(line[:len(line)-1], ',')
	lo, err := parseUint(loText, "line", 1<<31-1)
	if err != nil {
		return h, false, s.fail("%w", err)
	}
	hi := lo
	switch {
	case string(hiText) == "$" && cmd == 'd':
		hi = uint64(last)
	case hiText != nil:
		if hi, err = parseUint(hiText, "line", 1<<31-1); err != nil {
			return h, false, s.fail("%w", err)
		}
	}
	h.from, h.to = int(lo), int(hi)
	switch cmd {
	case 'a':
		if hiText != nil {
			return h, false, s.fail("an append to a range")
		}
		h.from++
	case 'c', 'd':
		if lo == 0 || lo > hi {
			return h, false, s.fail("lines %d to %d", lo, hi)
		}
	default:
		return h, false, s.fail("unknown command %q", clip(line))
	}
	if h.to > last {
		return h, false, s.fail("line %d does not exist, or the commands are out of order", h.to)
	}
	if cmd != 'd' {
		h.text, err = s.block()
	}
	return h, true, err
}

// block returns the lines up to the line with a single dot.
func (s *diffScanner) block() ([]byte, error) {
	rest := s.b
	for n := 0; ; {
		line, ok := s.next()
		if !ok {
			return nil, s.fail("the block does not end")
		}
		if len(line) == 1 && line[0] == '.' {
			if n == 0 {
				return nil, s.fail("empty block")
			}
			return rest[:n], nil
		}
		n += len(line) + 1
	}
}
