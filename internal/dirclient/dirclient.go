// Package dirclient keeps a client's directory information: it fetches the
// consensus, the authorities' certificates and the microdescriptors over
// BEGIN_DIR streams, verifies all of it, keeps it on disk, and renews it on the
// schedule of dir-spec section 5.
package dirclient

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// Purpose says what a stream is wanted for.
type Purpose uint8

// The purposes, in the order of a bootstrap.
const (
	Consensus Purpose = iota
	Certificates
	Microdescriptors
	Descriptors // of a Mirror: router descriptors and extra-info documents
)

// String returns the purpose in words.
func (p Purpose) String() string {
	return [...]string{"consensus", "certificates", "microdescriptors", "descriptors"}[p]
}

// Query asks for a stream to a directory cache.
type Query struct {
	Purpose   Purpose
	Directory *netdir.Directory // what is known of the network; nil: fallbacks and authorities are all there is
	Avoid     []ident.RelayID   // caches that failed this request already: to be taken only when there is no other
	// Attempt is how many caches were asked before, without success. From Attempts
	// on it is the turn of those that serve who has no directory yet.
	Attempt int
}

// Stream is an open BEGIN_DIR stream. Closing it must make blocked reads and
// writes return.
type Stream struct {
	io.ReadWriteCloser
	Cache ident.RelayID // whom it leads to
}

// Dialer opens streams to directory caches of its choice. The role that owns
// circuits implements it; OpenDir may be called from several goroutines.
type Dialer interface {
	OpenDir(ctx context.Context, q Query) (Stream, error)
	// ReportDir tells how a request over a stream to that cache ended: nil
	// for a useful answer.
	ReportDir(cache ident.RelayID, p Purpose, err error)
}

// Phase is a step of getting ready.
type Phase uint8

// The phases, in their order.
const (
	PhaseConsensus Phase = iota // waiting for a verified consensus
	PhaseMicrodescs
	PhaseDone // enough is known to build circuits
)

// String returns the phase in words for people.
func (p Phase) String() string {
	return [...]string{"getting the consensus", "getting relay descriptors", "directory information is complete enough"}[p]
}

// Progress tells how far a client has come. Done and Total count
// microdescriptors; both are zero before there is a consensus.
type Progress struct {
	Phase       Phase
	Done, Total int
}

// Config says how a Client works.
type Config struct {
	Network     *netdir.Network
	Dialer      Dialer
	Dir         string           // for the cache on disk, made if need be; empty: none is kept
	Protocols   protover.Set     // what this program speaks, held against what the consensus requires; zero: not checked
	PathsNeeded float64          // PathsNeededToBuildCircuits; zero: as the consensus says
	Log         *slog.Logger     // nil: silent
	Now         func() time.Time // nil: time.Now
	Keeper      Keeper           // nil: nobody keeps the texts
	Progress    func(Progress)   // called when something has changed, from one goroutine at a time; may be nil
}

// Keeper gets the texts of the documents that a Client takes, to serve them to
// others: what was read from disk and what was fetched, all verified. The
// methods are called from one goroutine at a time; the texts must not be
// changed.
type Keeper interface {
	KeepConsensus(text []byte)
	KeepCerts(certs []*netdoc.AuthCert)
	// KeepMicrodesc keeps a microdescriptor that the newest consensus names; its
	// text is part of a larger one.
	KeepMicrodesc(text []byte)
}
