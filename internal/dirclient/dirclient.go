// Package dirclient keeps a client's directory information: it fetches the
// consensus, the authorities' certificates and the microdescriptors over
// BEGIN_DIR streams, verifies all of it, keeps it on disk, and renews it on the
// schedule of dir-spec section 5.
package dirclient

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// Purpose says what documents a stream is for.
type Purpose uint8

// The purposes, in the order of a bootstrap.
const (
	Consensus Purpose = iota
	Certificates
	Microdescriptors
	Descriptors // router descriptors and extra-info documents, for a Mirror
)

// String returns the purpose in words.
func (p Purpose) String() string {
	return [...]string{"consensus", "certificates", "microdescriptors", "descriptors"}[p]
}

// ErrLacks is in the chain of the error of a request for microdescriptors if the cache answered, and lacks some of them: also by
// a status such as 404, but not by 503, which says that it is busy.
var ErrLacks = errors.New("the cache lacks microdescriptors that the newest consensus names")

// Query asks for a stream to a directory cache.
type Query struct {
	Purpose   Purpose
	Directory *netdir.Directory // the present directory; nil: only fallbacks and authorities are known
	Avoid     []ident.RelayID   // caches that already failed this request; use them only if there is no other
	// Attempt is the number of caches that were asked before, without success. If it
	// is Attempts or more, ask a cache that serves clients without a directory.
	Attempt int
	// Authority asks for an authority rather than another cache, unless there are bridges.
	Authority bool
	// From is the cache that gave the document which is to be completed; zero: none did. The
	// first attempt should ask it, if there is still a circuit to it.
	From ident.RelayID
}

// Stream is an open BEGIN_DIR stream. Closing it must make blocked reads and
// writes return.
type Stream struct {
	io.ReadWriteCloser
	Cache ident.RelayID    // the cache at the other end
	Addrs []netip.AddrPort // of its ORPort, the preferred one first; may be empty
}

// Dialer opens streams to directory caches of its choice. The role that owns circuits
// implements it. OpenDir may be called from several goroutines at once.
type Dialer interface {
	// OpenDir opens a stream. With an error, the Stream has only the cache that was chosen,
	// if one was: the request avoids that one from then on.
	OpenDir(ctx context.Context, q Query) (Stream, error)
	// ReportDir reports how a request over a stream to a cache ended; err is nil for
	// a useful answer. With ErrLacks in its chain it may have been of some use.
	ReportDir(cache ident.RelayID, p Purpose, err error)
}

// Phase is a step of the bootstrap.
type Phase uint8

// The phases, in their order.
const (
	PhaseConsensus Phase = iota // waiting for a verified consensus
	PhaseMicrodescs
	PhaseDone // enough is known to build circuits
)

// String returns the phase in words for the user.
func (p Phase) String() string {
	return [...]string{"getting the consensus", "getting relay descriptors", "directory information is complete enough"}[p]
}

// Progress says how far a client's bootstrap has come. Done and Total count
// microdescriptors; both are zero until there is a consensus.
type Progress struct {
	Phase       Phase
	Done, Total int
}

// Config configures a Client.
type Config struct {
	Network  *netdir.Network
	Dialer   Dialer
	Dir      string           // directory of the cache on disk, created if needed; empty: no cache
	Speaker  netdir.Speaker   // this program in its role, compared with what the consensus requires; zero: it is not
	Early    bool             // renew the consensus as soon as there is a new one, as relays do; clients spread their requests
	Short    bool             // make no request longer than HTTP proxies take, as public relays do: C tor's others make longer ones
	Common   bool             // ask for a consensus again when C tor's clients do, and not at once: see common.go
	Log      *slog.Logger     // nil: silent
	Now      func() time.Time // nil: time.Now
	Keeper   Keeper           // nil: the texts are not kept
	Shared   *netdir.Shared   // documents of other clients of this process, too; nil: nothing is shared
	Progress func(Progress)   // called when something has changed, from one goroutine at a time; may be nil
	// Hold waits as long as nothing shall be fetched, and reports false if ctx has ended; nil: nothing is held up.
	Hold func(ctx context.Context) bool
	// Idle reports whether nobody has used the client for so long that it builds no circuits ahead: by Common, relays'
	// descriptors wait then. nil: it never is.
	Idle func() bool
	// Lacks reports whether a guard's microdescriptor is missing without which circuits are not built. By Common it is asked for at once, unless
	// the client is idle. Nil: none is.
	Lacks func(*netdir.Directory) bool
	// Late has Common renew the consensus in the last minutes of its validity, as C tor's clients do that have bridges.
	Late bool
	// Bridged reports whether circuits begin at a bridge that works: guards' descriptors do not count then. nil: they never do.
	Bridged func() bool
}

// Keeper receives the texts of the documents that a Client uses, so that a directory
// cache can serve them. They come from the disk or the network and are verified. The
// Client calls one method at a time. The texts must not be changed.
type Keeper interface {
	KeepConsensus(text []byte)
	KeepCerts(certs []*netdoc.AuthCert)
	// KeepMicrodesc keeps a microdescriptor that the newest consensus names. Nobody changes its text.
	KeepMicrodesc(text []byte)
}
