//go:build unix

package watch

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/chivenet/chive/internal/panics"
)

// prepare does what output needs besides raw mode: nothing.
func prepare(*os.File) (undo func(), err error) { return func() {}, nil }

// sizeChanges tells when the terminal has another size.
func sizeChanges() (<-chan struct{}, func()) {
	sig, out, done := make(chan os.Signal, 1), make(chan struct{}, 1), make(chan struct{})
	signal.Notify(sig, syscall.SIGWINCH)
	go panics.Contain(slog.New(slog.DiscardHandler), nil, func() {
		for {
			select {
			case <-sig:
			case <-done:
				return
			}
			select {
			case out <- struct{}{}:
			default: // it is told already
			}
		}
	})()
	return out, func() { signal.Stop(sig); close(done) }
}
