package wan

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// appointed is work that begins at a given time, with an onion router that another starts.
type appointed struct {
	work
	At time.Time `json:"at"`
}

// maxWork bounds the file of a client's work, in bytes.
const maxWork = 1 << 20

// Ask is a client in the simulator. It reads its work from a file, has the circuit built, makes its requests at the time
// that the file says, and writes what became of them to another.
func Ask(ctx context.Context, file, out string) error {
	doc, err := atomicfile.ReadRegular(file, maxWork)
	if err != nil {
		return fault.New(fault.Config, "a client's work: %w", err)
	}
	var w appointed
	if err := json.Unmarshal(doc, &w); err != nil {
		return fault.New(fault.Config, "%s: %w", file, err)
	}
	starting, cancel := context.WithDeadline(ctx, w.At)
	defer cancel()
	if err := w.first(starting); err != nil {
		return err
	}
	select {
	case <-time.After(time.Until(w.At)):
	case <-ctx.Done():
		return fault.Ended(ctx, "%w", context.Cause(ctx))
	}
	var b bytes.Buffer
	if err := w.all(ctx, &b); err != nil {
		return err
	}
	return fault.Wrap(fault.Local, os.WriteFile(out, b.Bytes(), 0o644))
}
