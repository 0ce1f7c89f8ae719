package tord

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
)

// rest is what of the client's rest outlives the program. C tor keeps the same two values in its state file: the time in which
// the program does not run does not count.
type rest struct {
	Dormant bool `json:"dormant"`
	Minutes int  `json:"minutes_unused"`
}

// restFile is the file with it.
type restFile struct {
	path  string
	ours  bool      // this program has begun, so it may write it
	kept  *rest     // what is in it; nil: not known
	again time.Time // not before then, because it could not be written
}

const (
	restFileName = "dormant.json"
	restFileMost = 1 << 10
)

// read returns what the file says; nil: there is none.
func (f *restFile) read() (*rest, error) {
	text, err := atomicfile.ReadRegular(f.path, restFileMost)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := new(rest)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fault.New(fault.Config, "%s: %w", f.path, err)
	}
	if r.Minutes < 0 || time.Duration(r.Minutes) > longestRest/time.Minute {
		return nil, fault.New(fault.Config, "%s: %d minutes are too many or too few", f.path, r.Minutes)
	}
	return r, nil
}

// longestRest bounds what the file can say: so long, the numbers fit everywhere.
const longestRest = 100 * 365 * 24 * time.Hour

// begins says how the first client begins.
func (r *rest) begins(c conf) rest {
	var out rest
	switch {
	case c.on(dormantCanceled): // the start is use
	case r != nil:
		out = *r
	default:
		out.Dormant = c.on(dormantFirst)
	}
	if !c.on("DormantTimeoutEnabled") {
		out.Dormant = false
	}
	return out
}

// beginRestLocked takes over how the client rested when the program ended. Beside a relay it never rests.
func (t *tor) beginRestLocked(p *plan) {
	t.rest.path = filepath.Join(p.dataDir, restFileName)
	kept, err := t.rest.read()
	if err != nil {
		t.log.Warn("the file that says whether the client is dormant cannot be read, so the client is not", "err", err)
		kept = new(rest)
	}
	r := kept.begins(p.conf)
	t.resting.Store(r.Dormant && p.relay == nil)
	t.unused.Store(int64(time.Duration(r.Minutes) * time.Minute))
}

// restNow returns how the client rests. Without one, it is as the last one did.
func (t *tor) restNow(node *daemon.Hosted) rest {
	dormant, unused := t.resting.Load(), time.Duration(t.unused.Load())
	if node != nil {
		dormant, unused = node.Inner().Dormant(), time.Since(node.Inner().LastUse())
	}
	if dormant {
		return rest{Dormant: true} // the time counts no more
	}
	return rest{Minutes: int(min(max(unused, 0), longestRest) / time.Minute)}
}

// saveRestLocked writes the file, if it has anything else in it.
func (t *tor) saveRestLocked() {
	_, node := t.plan()
	now := t.restNow(node)
	if !t.rest.ours || t.rest.kept != nil && *t.rest.kept == now {
		return
	}
	if err := atomicfile.WriteJSON(t.rest.path, now, atomicfile.Secret); err != nil {
		t.log.Warn("the file that says whether the client is dormant was not written", "err", err)
		t.rest.again = time.Now().Add(restFileAgain)
		return
	}
	t.rest.kept = &now
}

// restFileAgain is how long a file that could not be written rests.
const restFileAgain = time.Hour

// keepRestFile writes the file when the client begins or ends to rest, and each hour in which nobody uses it: the process may be
// killed.
func (t *tor) keepRestFile(node *daemon.Hosted) {
	if !t.changing.TryLock() { // the next second comes soon
		return
	}
	defer t.changing.Unlock()
	now, kept := t.restNow(node), t.rest.kept
	if kept != nil && kept.Dormant == now.Dormant && kept.Minutes/60 == now.Minutes/60 || time.Now().Before(t.rest.again) {
		return
	}
	t.saveRestLocked()
}
