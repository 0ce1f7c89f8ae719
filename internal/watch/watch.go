// Package watch is the view of chive status --watch: a page on a terminal that shows, every
// second, what a running proxy, relay or authority does, as nyx does for C tor.
//
// What it shows comes from others: nicknames, problems, lines of a log. Only printable
// ASCII characters of that reach the terminal, so that none of it can steer the terminal,
// and each character is one column wide.
//
// Why this is no library: one would take over the files terminal*.go and keys.go, 230 lines, and
// want an adapter in return. The page, its panes and their tests would stay: they are functions of a
// snapshot and a size. What bin/chive would gain, in MB, with a library that only draws one character:
//
//	0.32  github.com/gdamore/tcell/v2 v2.13.10, with tcell_minimal; 0.37 without
//	1.21  charm.land/bubbletea/v2 v2.1.1, with 12 modules
//
// tcell knows more: terminals with other control codes, a new size of Windows' console at once, and
// a key whose bytes come in two parts. Take it when one of these matters.
// golang.org/x/term, which is in chive anyway, knows what differs between systems: raw mode, and
// the size of the terminal. The control codes that this package writes are those that every
// terminal of today has, and it writes only rows that have changed, so that nothing flickers.
package watch

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/relay"
)

// Snapshot is what a running program tells. One of Client, Relay and Authority is not nil.
type Snapshot struct {
	Role, Version string

	Client    *chive.Status
	Onions    []chive.OnionStatus // that the client hosts
	Relay     *relay.Status
	Authority *authority.Status

	Text     string   // all of it as chive status prints it
	Log      []string // lines of the log since the last snapshot
	LastLine uint64   // the number of the last one
}

// Source is a running program.
type Source interface {
	// Read returns the present state, and the lines of the log after a number.
	Read(ctx context.Context, after uint64) (*Snapshot, error)
	// NewIdentity asks for a new identity, or returns how long to wait before the next.
	NewIdentity(ctx context.Context) (wait time.Duration, err error)
}

// interval is the time between two snapshots.
const interval = time.Second

// screen is a terminal that shows pages.
type screen interface {
	size() (columns, rows int)
	draw(rows []string)
	keys() <-chan key         // closed: there is no more input
	resized() <-chan struct{} // nil: the size is looked at with each snapshot
}

// loop shows the source on the screen until the user quits or ctx ends.
func loop(ctx context.Context, src Source, s screen, v *view) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read := make(chan func(), 1) // what follows from the snapshot
	asked := make(chan string, 1)
	failed := make(chan error, 2)
	quiet := slog.New(slog.DiscardHandler)
	fail := func(err error) { failed <- err }
	reading, asking := false, false

	ask := func() {
		if reading || v.paused {
			return
		}
		reading = true
		after := v.lastLine
		go panics.Contain(quiet, fail, func() {
			snap, err := src.Read(ctx, after)
			read <- func() { v.take(snap, err, time.Now()) }
		})()
	}
	renew := func() {
		if asking {
			return
		}
		asking = true
		go panics.Contain(quiet, fail, func() { asked <- identityText(src.NewIdentity(ctx)) })()
	}

	tick := time.NewTicker(interval)
	defer tick.Stop()
	keys := s.keys()
	for ask(); ; {
		columns, rows := s.size()
		s.draw(v.page(columns, rows, time.Now()))
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case take := <-read:
			reading = false
			take()
		case text := <-asked:
			asking = false
			v.tell(text, time.Now())
			ask()
		case <-s.resized():
		case <-tick.C:
			ask()
		case k, ok := <-keys:
			if !ok {
				return nil
			}
			switch v.press(k) {
			case quit:
				return nil
			case newIdentity:
				renew()
			case resume:
				ask()
			}
		}
	}
}

func identityText(wait time.Duration, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case wait > 0:
		return fmt.Sprintf("the next new identity is possible in %s", short(wait+time.Second-1))
	}
	return "new identity: new connections use new circuits"
}
