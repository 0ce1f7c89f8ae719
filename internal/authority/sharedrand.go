package authority

import (
	"bytes"
	"cmp"
	"crypto/sha3"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// Commit is an authority's commitment to a random number, and the number once
// it is revealed (srv-spec, "COMMIT" and "REVEAL").
type Commit struct {
	Identity ident.RSAID
	Text     string // base64 of the timestamp and the digest of Reveal
	Reveal   string // base64 of the timestamp and the number; empty: not revealed
}

// srRounds is the number of rounds of each of the two phases.
const srRounds = 12

// srLen is the length of a commitment and of a reveal: a timestamp and a
// digest.
const srLen = 8 + 32

// ParseCommit reads the arguments of a "shared-rand-commit" line.
func ParseCommit(args string) (Commit, error) {
	var c Commit
	w := strings.Fields(args)
	if len(w) < 4 || w[0] != "1" || w[1] != "sha3-256" {
		return c, fault.New(fault.Directory, "shared-rand-commit: %.60q is not of version 1 with sha3-256", args)
	}
	var err error
	if c.Identity, err = ident.ParseRSAID(w[2]); err != nil {
		return c, fault.New(fault.Directory, "shared-rand-commit: %w", err)
	}
	if _, err := decodeSR(w[3]); err != nil {
		return c, err
	}
	c.Text = w[3]
	if len(w) > 4 {
		if _, err := decodeSR(w[4]); err != nil {
			return c, err
		}
		c.Reveal = w[4]
	}
	return c, nil
}

func decodeSR(s string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) != srLen {
		return nil, fault.New(fault.Directory, "shared-rand-commit: %.60q is not %d bytes of base64", s, srLen)
	}
	return b, nil
}

// Opens reports whether the reveal matches the commitment.
func (c *Commit) Opens() bool {
	commit, err := decodeSR(c.Text)
	if err != nil {
		return false
	}
	reveal, err := decodeSR(c.Reveal)
	if err != nil {
		return false
	}
	sum := sha3.Sum256([]byte(c.Reveal))
	return bytes.Equal(commit[:8], reveal[:8]) && bytes.Equal(commit[8:], sum[:])
}

// String returns the arguments of the line.
func (c *Commit) String() string {
	s := "1 sha3-256 " + c.Identity.String() + " " + c.Text
	if c.Reveal != "" {
		s += " " + c.Reveal
	}
	return s
}

// newCommit makes a commitment.
func newCommit(rand io.Reader, id ident.RSAID, at time.Time) (Commit, error) {
	var number [32]byte
	if _, err := io.ReadFull(rand, number[:]); err != nil {
		return Commit{}, fault.New(fault.Local, "shared random number: %w", err)
	}
	stamp := binary.BigEndian.AppendUint64(nil, uint64(at.Unix()))
	c := Commit{Identity: id, Reveal: base64.StdEncoding.EncodeToString(append(stamp[:8:8], number[:]...))}
	sum := sha3.Sum256([]byte(c.Reveal))
	c.Text = base64.StdEncoding.EncodeToString(append(stamp[:8:8], sum[:]...))
	return c, nil
}

// sharedRandom is an authority's state of the shared randomness protocol
// (srv-spec): for twelve rounds, authorities commit to numbers; for the next
// twelve, they reveal them. It is saved as JSON.
type sharedRandom struct {
	Commits           map[string]Commit // by identity in hexadecimal; our own has its reveal from the start
	Previous, Current *netdoc.SharedRandom
	Fresh             bool // Current was computed, and no consensus has it yet
	Reveal            bool // in the reveal phase
	ValidAfter        time.Time
}

// phase returns the run of the protocol to which a round belongs (if rounds last
// an hour: the day), and whether the round is in the reveal phase.
func phase(validAfter time.Time, interval time.Duration) (run int64, reveal bool) {
	n := validAfter.Unix() / int64(interval/time.Second)
	return n / (2 * srRounds), n%(2*srRounds) >= srRounds
}

// update prepares for the round that starts at validAfter. known are the
// authorities whose commitments count.
func (s *sharedRandom) update(rand io.Reader, me ident.RSAID, known []ident.RSAID, validAfter time.Time, interval time.Duration) error {
	run, reveal := phase(validAfter, interval)
	last, _ := phase(s.ValidAfter, interval)
	if run == last && !validAfter.After(s.ValidAfter) {
		return nil
	}
	// The phase alone does not tell: an authority that was off from one commit
	// phase to the next, or whose clock was wrong, must not keep the commitments.
	begins := run != last
	if s.Reveal && run == last+1 {
		s.Previous, s.Current = s.Current, nil
		s.Current = s.compute(known)
		s.Fresh = true
	}
	if begins {
		s.Commits = map[string]Commit{}
	}
	s.Reveal, s.ValidAfter = reveal, validAfter
	if !reveal && len(s.Commits) == 0 {
		c, err := newCommit(rand, me, validAfter)
		if err != nil {
			return err
		}
		s.Commits[me.String()] = c
	}
	return nil
}

// compute computes the shared random value from the revealed numbers.
func (s *sharedRandom) compute(known []ident.RSAID) *netdoc.SharedRandom {
	var list []Commit
	for _, c := range s.Commits {
		if c.Reveal != "" && slices.Contains(known, c.Identity) {
			list = append(list, c)
		}
	}
	// An authority can repeat another's commitment, and later its reveal: all must put the
	// two into the same order.
	slices.SortFunc(list, func(a, b Commit) int {
		return cmp.Or(bytes.Compare(a.digest(), b.digest()), bytes.Compare(a.Identity[:], b.Identity[:]))
	})
	h := sha3.New256()
	for _, c := range list {
		h.Write([]byte(c.Identity.String() + c.Reveal))
	}
	msg := []byte("shared-random")
	msg = binary.BigEndian.AppendUint64(msg, uint64(len(list)))
	msg = binary.BigEndian.AppendUint32(msg, 1) // version
	msg = h.Sum(msg)
	var prev [32]byte
	if s.Previous != nil {
		prev = s.Previous.Value
	}
	return &netdoc.SharedRandom{Reveals: len(list), Value: sha3.Sum256(append(msg, prev[:]...))}
}

// digest returns the digest in the commitment, which determines the order of the
// numbers.
func (c *Commit) digest() []byte {
	b, err := decodeSR(c.Text)
	if err != nil {
		return nil
	}
	return b[8:]
}

// receive takes a voter's own commitment from its vote, and ignores the other
// lines.
func (s *sharedRandom) receive(voter ident.RSAID, lines []string) {
	for _, l := range lines {
		c, err := ParseCommit(l)
		if err != nil || c.Identity != voter {
			continue
		}
		key := hexID(voter)
		saved, have := s.Commits[key]
		switch {
		case !s.Reveal && !have && c.Reveal == "" && s.Commits != nil:
			s.Commits[key] = c
		case s.Reveal && have && saved.Reveal == "" && saved.Text == c.Text && c.Opens():
			s.Commits[key] = c
		}
	}
}

// published takes over the values that the authorities agreed on.
func (s *sharedRandom) published(c *netdoc.Consensus) {
	s.Previous, s.Current, s.Fresh = c.SharedRandPrevious, c.SharedRandCurrent, false
}

// lines returns the commitments for a vote: with reveals in the reveal phase.
func (s *sharedRandom) lines() []string {
	var out []string
	for _, c := range s.Commits {
		if !s.Reveal {
			c.Reveal = ""
		}
		out = append(out, c.String())
	}
	slices.Sort(out)
	return out
}

func hexID(id ident.RSAID) string { return strings.ToUpper(hex.EncodeToString(id[:])) }
