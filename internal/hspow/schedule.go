package hspow

import (
	"crypto/sha3"
	"encoding/binary"
	"time"
)

// A service's seed changes after seedStep, and up to seedJitter seconds less or more: after
// 105 to 120 minutes (hspow-spec).
const (
	seedStep   = 6750 // seconds
	seedJitter = 450
	// SeedSkew is how long before its time a seed is known already: another host of the
	// service may have a clock that is ahead, or this host's clock was set back.
	SeedSkew = 10 * time.Minute
)

// Schedule says which seed a service has at which time. All of it follows from a secret, so
// that the seeds are the same after a restart, and at all hosts that have the secret.
// Nobody else can tell a seed before the service publishes it.
type Schedule struct{ secret [32]byte }

// NewSchedule returns the schedule of a service's secret.
func NewSchedule(secret [32]byte) *Schedule { return &Schedule{secret} }

// Seed is what clients solve proofs for between two times.
type Seed struct {
	Number      int64 // seeds follow each other by their numbers
	Value       [32]byte
	From, Until time.Time
}

// At returns the seed of a time.
func (s *Schedule) At(t time.Time) Seed {
	n := (t.Unix() - s.phase()) / seedStep
	for s.from(n) > t.Unix() {
		n--
	}
	return s.number(n)
}

// Known returns the seeds that clients may have at a time, the present one first: also the
// one before, and, shortly before its time, the one after.
func (s *Schedule) Known(t time.Time) []Seed {
	now := s.At(t)
	out := []Seed{now, s.number(now.Number - 1)}
	if now.Until.Sub(t) <= SeedSkew {
		out = append(out, s.number(now.Number+1))
	}
	return out
}

func (s *Schedule) number(n int64) Seed {
	return Seed{n, s.derive("seed", n), time.Unix(s.from(n), 0), time.Unix(s.from(n+1), 0)}
}

// from is when a seed's time begins, in Unix time.
func (s *Schedule) from(n int64) int64 {
	b := s.derive("time", n)
	return s.phase() + n*seedStep + int64(binary.BigEndian.Uint64(b[:])%(seedJitter+1))
}

// phase keeps the seeds of different services from changing together.
func (s *Schedule) phase() int64 {
	b := s.derive("phase", 0)
	return int64(binary.BigEndian.Uint64(b[:]) % seedStep)
}

func (s *Schedule) derive(what string, n int64) (out [32]byte) {
	h := sha3.New256()
	h.Write([]byte("chive onion work " + what + "\x00")) // a hash returns no error
	h.Write(s.secret[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	h.Sum(out[:0])
	return out
}
