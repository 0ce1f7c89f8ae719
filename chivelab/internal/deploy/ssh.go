package deploy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// maxClock is how far the boards' clocks may be apart: from there on clients and relays say that a clock is wrong, and
// what a consensus and descriptors stand is not much more (dir-spec 5.1, 4.1).
const maxClock = 30 * time.Minute

// OverSSH runs an inventory on boards that the system's ssh reaches.
func OverSSH(ctx context.Context, inv *Inventory, programs *Programs, out string, say func(string)) (rep *Report, err error) {
	home, err := newHome()
	if err != nil {
		return nil, err
	}
	id := make([]byte, 8)
	rand.Read(id)
	r := &Run{Inventory: inv, Out: out, Say: say, boards: map[string]board{}}
	sockets, err := socketsIn(home.dir)
	if err != nil {
		return nil, errors.Join(err, home.remove())
	}
	var boards []*sshBoard
	for i := range inv.Nodes {
		n := &inv.Nodes[i]
		b := &sshBoard{remote: newRemote(inv, n, sockets), node: n, inv: inv, programs: programs, id: hex.EncodeToString(id), runner: programs.Runner}
		boards, r.boards[n.Name] = append(boards, b), b
	}
	if err := writeRecord(home.dir, boards); err != nil {
		return nil, errors.Join(err, home.remove())
	}
	r.prepared = func() error { return checkClocks(boards, r.place) }
	r.say("the boards get the program")
	rep, err = r.do(ctx)
	for _, b := range boards {
		if b.maybe { // the record stays, for Clean
			return rep, errors.Join(err, home.keep(), fault.New(fault.Network, "something may be left on boards: \"chivelab clean\" tries again to remove it"))
		}
	}
	return rep, errors.Join(err, home.remove())
}

// checkClocks compares the boards' clocks with the directory's.
func checkClocks(boards []*sshBoard, place func(*Node) string) error {
	var directory *sshBoard
	for _, b := range boards {
		if b.node.Role == Directory {
			directory = b
		}
	}
	var errs []error
	for _, b := range boards {
		if d := b.ahead - directory.ahead; d.Abs() > maxClock {
			errs = append(errs, fault.New(fault.Config, "%s: its clock differs by %v from that of the directory's board, and may by %v", place(b.node), d.Round(time.Second), maxClock))
		}
	}
	return errors.Join(errs...)
}

// recordName is the file of a run that says where it has something: for Clean, if the run is killed.
const recordName = "boards.json"

// maxRecord bounds it.
const maxRecord = 64 << 10

// record is what it says of a board.
type record struct {
	Name       string `json:"name"`
	Reach      Reach  `json:"reach"`
	KnownHosts string `json:"known_hosts,omitempty"`
	Base       string `json:"base"`
}

func writeRecord(dir string, boards []*sshBoard) error {
	var all []record
	for _, b := range boards {
		all = append(all, record{b.name, b.reach, b.knownHosts, b.base()})
	}
	return atomicfile.WriteJSON(filepath.Join(dir, recordName), all, 0o600)
}

// cleanBoards removes what a killed run has left on boards.
func cleanBoards(ctx context.Context, dir string) (removed []string, err error) {
	doc, err := atomicfile.ReadRegular(filepath.Join(dir, recordName), maxRecord)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // it was none on boards
	}
	var all []record
	if err == nil {
		err = json.Unmarshal(doc, &all)
	}
	if err != nil {
		return nil, fault.New(fault.Local, "%s: %w", filepath.Join(dir, recordName), err)
	}
	sockets, err := socketsIn(dir)
	if err != nil {
		return nil, err
	}
	for _, rec := range all {
		r := remote{reach: rec.Reach, name: rec.Name, knownHosts: rec.KnownHosts, sockets: sockets}
		if err2 := errors.Join(rec.check(), rec.Reach.check()); err2 != nil {
			return removed, fault.New(fault.Local, "%s: %w", filepath.Join(dir, recordName), err2)
		}
		some, err2 := r.removeAll(ctx, rec.Base)
		r.leave(ctx)
		for _, at := range some {
			removed = append(removed, fmt.Sprintf("%s on %s", at, r.where()))
		}
		if err2 != nil {
			err = errors.Join(err, fault.New(fault.KindOf(err2), "%s (%s): %w", rec.Name, r.where(), err2))
		}
	}
	return removed, err
}

// check checks what Reach does not have.
func (rec *record) check() error {
	n := len(runPrefix) + 16
	if !plain(rec.Name) || len(rec.Base) < n || rec.Base != rec.Base[:n]+"-"+rec.Name || rec.Base[:len(runPrefix)] != runPrefix || rec.Reach.Host == "" ||
		rec.KnownHosts != "" && !fileForm.MatchString(rec.KnownHosts) {
		return fault.New(fault.Local, "it is not what a run writes")
	}
	if _, err := hex.DecodeString(rec.Base[len(runPrefix):n]); err != nil {
		return fault.New(fault.Local, "it is not what a run writes")
	}
	return nil
}

// Remove ends all runs on the boards of an inventory, whoever began them, and removes what they have there.
func Remove(ctx context.Context, inv *Inventory, say func(string)) error {
	dir, err := os.MkdirTemp("", "chivelab-remove-")
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	var errs []error
	for i := range inv.Nodes {
		n := &inv.Nodes[i]
		r := newRemote(inv, n, dir)
		removed, err := r.removeAll(ctx, runPrefix+"*")
		r.leave(ctx)
		for _, at := range removed {
			say(fmt.Sprintf("%s: removed %s on %s", n.Name, at, r.where()))
		}
		if err != nil {
			errs = append(errs, fault.New(fault.KindOf(err), "%s (%s): %w", inv.place(n), r.where(), err))
		}
	}
	return errors.Join(errors.Join(errs...), fault.Wrap(fault.Local, os.RemoveAll(dir)))
}
