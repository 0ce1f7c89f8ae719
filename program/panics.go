package program

import (
	"log/slog"

	"github.com/chivenet/chive/internal/panics"
)

// Contain returns a function that runs f: a panic in it ends what f serves, and not the whole program. The
// panic is counted (chive_panics_total), its place is logged once, and failed is called, which may be nil.
// Under go test, panics go on as if Contain did not exist. It excuses no mistake: use it where f serves one
// stranger among others.
func Contain(log *slog.Logger, failed func(error), f func()) func() {
	return panics.Contain(log, failed, f)
}
