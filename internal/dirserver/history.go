package dirserver

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// Bounds of the earlier consensuses of a flavor, to make diffs from.
const (
	maxEarlier       = 96 // testing networks make many
	maxEarlierAge    = 72 * time.Hour
	maxEarlierFiles  = 160 << 20
	maxEarlierMemory = 64 << 20 // of those that no file has
)

// Earlier is a consensus that once was the current one, or is it still.
type Earlier struct {
	Flavor     netdoc.Flavor
	ValidAfter time.Time
	SHA3       [32]byte // of the signed part

	of     *history
	text   []byte // as it is; nil: packed or file has it
	packed []byte // compressed; nil: text or file has it
	onDisk bool
	size   int64 // of what has it
}

// history keeps consensuses: compressed, in files of a folder if there is one. A file is read when somebody asks for the diff
// from it, which happens once for each that becomes current. To map the files instead would save one copy of 0.8 MB then,
// and whoever changes a mapped file ends the process. The zero value keeps all in memory.
type history struct {
	dir string // "": none
	log *slog.Logger

	mu sync.Mutex // guards what follows
	of [2][]*Earlier
}

// open has the consensuses kept in a folder, and finds those that an earlier process left there. It reads none: a file is
// believed when its text has the digest that its name says.
func (h *history) open(dir string, log *slog.Logger) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, err := os.ReadDir(dir)
	if err == nil {
		err = atomicfile.Sweep(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Local, "earlier consensuses: %w", err)
	}
	h.dir, h.log = dir, log
	for _, f := range all {
		e, ok := parseEarlierName(f.Name())
		info, err := f.Info()
		switch {
		case strings.HasPrefix(f.Name(), "."):
			continue
		case !ok || err != nil || !info.Mode().IsRegular():
			log.Warn("a file among the earlier consensuses is none of them, and is left alone", "file", f.Name())
			continue
		}
		e.of, e.onDisk, e.size = h, true, info.Size()
		h.insertLocked(e)
	}
	return nil
}

// The name of a file says what is in it.
const (
	earlierTime   = "20060102T150405Z"
	earlierSuffix = ".zst"
)

func (e *Earlier) name() string {
	return e.Flavor.String() + "-" + e.ValidAfter.UTC().Format(earlierTime) + "-" + hex.EncodeToString(e.SHA3[:]) + earlierSuffix
}

func parseEarlierName(name string) (*Earlier, bool) {
	e := new(Earlier)
	for _, e.Flavor = range []netdoc.Flavor{netdoc.FlavorNS, netdoc.FlavorMicrodesc} {
		if strings.HasPrefix(name, e.Flavor.String()+"-") {
			break
		}
	}
	part := strings.Split(strings.TrimSuffix(name, earlierSuffix), "-")
	if len(part) != 3 {
		return nil, false
	}
	t, err := time.Parse(earlierTime, part[1])
	digest, err2 := hex.DecodeString(part[2])
	if err != nil || err2 != nil || len(digest) != len(e.SHA3) {
		return nil, false
	}
	e.ValidAfter, e.SHA3 = t, [32]byte(digest)
	return e, e.name() == name
}

// find returns a consensus by its digest, or nil.
func (h *history) find(f netdoc.Flavor, sha3 [32]byte) *Earlier {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.findLocked(f, sha3)
}

func (h *history) findLocked(f netdoc.Flavor, sha3 [32]byte) *Earlier {
	for _, e := range h.of[f] {
		if e.SHA3 == sha3 {
			return e
		}
	}
	return nil
}

// was keeps the text of a consensus that is no longer current, unless it is kept already.
func (h *history) was(c *Consensus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.findLocked(c.Flavor, c.SHA3) != nil {
		return
	}
	h.insertLocked(&Earlier{Flavor: c.Flavor, ValidAfter: c.ValidAfter, SHA3: c.SHA3, of: h, text: c.Doc.body, size: int64(len(c.Doc.body))})
	h.trimLocked(c)
}

// keep keeps a consensus compressed, in a file if there is a folder. Its document has the same bytes for those who ask
// for them.
func (h *history) keep(c *Consensus) error {
	e := &Earlier{Flavor: c.Flavor, ValidAfter: c.ValidAfter, SHA3: c.SHA3, of: h}
	if old := h.find(c.Flavor, c.SHA3); old != nil && old.text == nil {
		text, packed, err := old.read()
		if err == nil && bytes.Equal(text, c.Doc.body) {
			c.Doc.adopt("x-zstd", packed)
			return nil
		}
	}
	packed, err := c.Doc.encoded("x-zstd")
	if err != nil {
		return err
	}
	e.size = int64(len(packed))
	if h.dir == "" {
		e.packed = packed
	} else {
		if err = os.MkdirAll(h.dir, 0o700); err == nil {
			err = atomicfile.Write(filepath.Join(h.dir, e.name()), packed, atomicfile.Secret)
		}
		if err != nil {
			return fault.New(fault.Local, "earlier consensuses: %w", err)
		}
		e.onDisk = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.insertLocked(e)
	h.trimLocked(c)
	return nil
}

// insertLocked adds a consensus, in the place of what was kept of it.
func (h *history) insertLocked(e *Earlier) {
	list := slices.DeleteFunc(h.of[e.Flavor], func(o *Earlier) bool { return o.SHA3 == e.SHA3 })
	at := len(list)
	for at > 0 && list[at-1].ValidAfter.After(e.ValidAfter) {
		at--
	}
	h.of[e.Flavor] = slices.Insert(list, at, e)
}

// trimLocked drops what is beyond the bounds when c has become current: the oldest ones, and those that say they are from
// later than c. A name alone is not believed, and must not push others out.
func (h *history) trimLocked(c *Consensus) {
	var kept []*Earlier
	var files, memory int64
	full := false
	for _, e := range slices.Backward(h.of[c.Flavor]) {
		age := c.ValidAfter.Sub(e.ValidAfter)
		if age < 0 || age > maxEarlierAge || full {
			h.remove(e)
			continue
		}
		if e.onDisk {
			files += e.size
		} else {
			memory += e.size
		}
		if full = len(kept) == maxEarlier || files > maxEarlierFiles || memory > maxEarlierMemory; full {
			h.remove(e)
			continue
		}
		kept = append(kept, e)
	}
	slices.Reverse(kept)
	h.of[c.Flavor] = kept
}

// remove removes a consensus's file.
func (h *history) remove(e *Earlier) {
	if !e.onDisk {
		return
	}
	if err := os.Remove(filepath.Join(h.dir, e.name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.log.Warn("the file of an earlier consensus cannot be removed", "file", e.name(), "err", err)
	}
}

// Text returns the consensus. Of a file, it checks the digest; one with something else in it is removed.
func (e *Earlier) Text() ([]byte, error) {
	text, _, err := e.read()
	return text, err
}

func (e *Earlier) read() (text, packed []byte, err error) {
	if e.text != nil {
		return e.text, nil, nil
	}
	if !e.onDisk {
		text, err = unpack(e.packed)
		return text, e.packed, err
	}
	if packed, err = atomicfile.ReadRegular(filepath.Join(e.of.dir, e.name()), netdoc.MaxConsensus); err != nil {
		return nil, nil, fault.Wrap(fault.Local, err)
	}
	if text, err = unpack(packed); err == nil {
		var sum [32]byte
		if sum, err = netdoc.SHA3Signed(text); err == nil && sum != e.SHA3 {
			err = fault.New(fault.Directory, "another consensus is in it")
		}
	}
	if err != nil {
		e.of.damaged(e, err)
		return nil, nil, err
	}
	return text, packed, nil
}

// damaged drops a consensus of which something else was found.
func (h *history) damaged(e *Earlier, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.findLocked(e.Flavor, e.SHA3) != e {
		return // another call was first
	}
	h.log.Warn("the file of an earlier consensus is damaged, and is removed", "file", e.name(), "err", why)
	h.of[e.Flavor] = slices.DeleteFunc(h.of[e.Flavor], func(o *Earlier) bool { return o == e })
	h.remove(e)
}
