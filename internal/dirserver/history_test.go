package dirserver

import (
	"bytes"
	"crypto/sha3"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// historyWorld is a cache that is restarted.
type historyWorld struct {
	*Memory
	t   *testing.T
	dir string
	log safeBuffer
	old *Consensus // the one before
}

const microPath = "/tor/status-vote/current/consensus-microdesc"

func newHistoryWorld(t *testing.T) *historyWorld {
	w := &historyWorld{t: t, dir: filepath.Join(t.TempDir(), "earlier"), Memory: new(Memory)}
	w.open()
	w.old = w.read("consensus-microdesc-old")
	return w
}

func (w *historyWorld) read(name string) *Consensus {
	w.t.Helper()
	c, err := NewConsensus(testdata(w.t, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *historyWorld) open() {
	w.t.Helper()
	w.Memory = new(Memory)
	if err := w.KeepIn(w.dir, slog.New(slog.NewTextHandler(&w.log, nil))); err != nil {
		w.t.Fatal(err)
	}
}

// set makes a consensus the current one.
func (w *historyWorld) set(c *Consensus) {
	w.t.Helper()
	w.SetConsensus(c)
	if err := w.Keep(c); err != nil {
		w.t.Fatal(err)
	}
}

// diff asks for the current consensus as a client that has the old one, and reports whether the answer is a diff.
func (w *historyWorld) diff() bool {
	w.t.Helper()
	s := New(Config{Docs: w.Memory, Now: func() time.Time { return when }})
	status, body := get(w.t, s, microPath, "X-Or-Diff-From-Consensus: "+hex.EncodeToString(w.old.SHA3[:]))
	isDiff := netdoc.IsDiff(body)
	if isDiff {
		var err error
		if body, err = netdoc.ApplyDiff(w.old.Doc.body, body); err != nil {
			w.t.Fatal(err)
		}
	}
	if status != 200 || !bytes.Equal(body, testdata(w.t, "consensus-microdesc")) {
		w.t.Errorf("%d, or another consensus", status)
	}
	return isDiff
}

// files returns the names in the folder.
func (w *historyWorld) files() (names []string) {
	w.t.Helper()
	all, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range all {
		names = append(names, f.Name())
	}
	return names
}

func (w *historyWorld) fileOf(c *Consensus) string {
	return filepath.Join(w.dir, (&Earlier{Flavor: c.Flavor, ValidAfter: c.ValidAfter, SHA3: c.SHA3}).name())
}

// TestDiffAfterRestart: a cache makes diffs from consensuses that an earlier process had, also when that was killed at
// once. None of them is in memory.
func TestDiffAfterRestart(t *testing.T) {
	w := newHistoryWorld(t)
	w.set(w.old)
	if st, err := os.Stat(w.fileOf(w.old)); err != nil || st.Size() >= int64(len(w.old.Doc.body)) {
		t.Errorf("%v", err)
	}
	w.open()
	w.set(w.read("consensus-microdesc"))
	if !w.diff() {
		t.Error("no diff after a restart")
	}
	for _, e := range w.history.of[netdoc.FlavorMicrodesc] {
		if e.text != nil || e.packed != nil {
			t.Error("a consensus with a file is in memory, too")
		}
	}
	if n := len(w.files()); n != 2 {
		t.Errorf("%d files", n)
	}
	if got := w.log.take(); got != "" {
		t.Error(got)
	}
}

func packed(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(b, nil)
}

// TestDamagedHistory: what is in a file is believed only if it is what the name says. Clients get the whole
// consensus then, and the file is named and removed.
func TestDamagedHistory(t *testing.T) {
	for name, damage := range map[string]func(b []byte) []byte{
		"nothing":           func([]byte) []byte { return nil },
		"torn":              func(b []byte) []byte { return b[:len(b)/2] },
		"a bit":             func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
		"garbage":           func([]byte) []byte { return []byte("garbage") },
		"no consensus":      func([]byte) []byte { return packed(t, []byte("hello\n")) },
		"another consensus": func([]byte) []byte { return packed(t, testdata(t, "consensus-microdesc")) },
		"a bomb":            func([]byte) []byte { return packed(t, make([]byte, 2*netdoc.MaxConsensus)) },
	} {
		w := newHistoryWorld(t)
		w.set(w.old)
		file := w.fileOf(w.old)
		b, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, damage(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.open()
		w.set(w.read("consensus-microdesc"))
		if w.diff() {
			t.Errorf("%s: a diff", name)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("%s: the file is there (%v)", name, err)
		}
		if got := w.log.take(); strings.Count(got, filepath.Base(file)) != 1 {
			t.Errorf("%s: the log says %q", name, got)
		}
	}
}

// TestStrangeFiles: what is no consensus's file is left alone, unfinished files are removed, and no name pushes others out.
func TestStrangeFiles(t *testing.T) {
	w := newHistoryWorld(t)
	w.set(w.old)
	future := *w.old
	future.ValidAfter, future.SHA3[0] = w.old.ValidAfter.AddDate(900, 0, 0), future.SHA3[0]^1
	folder := *w.old
	folder.SHA3[1] ^= 1
	strange := []string{"README", "microdesc-20260101T000000Z-00.zst", strings.ToUpper(filepath.Base(w.fileOf(w.old))), "full-" + filepath.Base(w.fileOf(w.old))}
	for _, name := range append([]string{filepath.Base(w.fileOf(&future)), ".unfinished.tmp"}, strange...) {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(w.fileOf(&folder), 0o700); err != nil {
		t.Fatal(err)
	}
	strange = append(strange, filepath.Base(w.fileOf(&folder)))
	w.open()
	said := w.log.take()
	for _, name := range strange {
		if strings.Count(said, name) == 0 {
			t.Errorf("the log does not name %s: %s", name, said)
		}
	}
	w.set(w.read("consensus-microdesc"))
	if !w.diff() {
		t.Error("no diff from what is there")
	}
	left := strings.Join(w.files(), " ")
	for _, name := range strange {
		if !strings.Contains(left, name) {
			t.Errorf("%s is gone", name)
		}
	}
	if strings.Contains(left, ".unfinished") || strings.Contains(left, filepath.Base(w.fileOf(&future))) {
		t.Errorf("there is %s", left)
	}
}

// short returns a consensus of little text.
func shortConsensus(at time.Time) *Consensus {
	text := []byte("network-status-version 3 microdesc\nvalid-after " + at.Format(time.RFC3339) + "\ndirectory-signature x\n")
	c := &Consensus{Flavor: netdoc.FlavorMicrodesc, Doc: hourDoc(text), SHA3: sha3.Sum256(text)}
	c.ValidAfter = at
	return c
}

// TestHistoryBounds: consensuses of three days are kept, and of many in a short time the last ones; without a folder, too.
func TestHistoryBounds(t *testing.T) {
	for _, x := range []struct {
		every time.Duration
		want  int
	}{{time.Hour, 73}, {time.Minute, maxEarlier}} {
		for _, onDisk := range []bool{true, false} {
			w := newHistoryWorld(t)
			if !onDisk {
				w.Memory = new(Memory)
			}
			var last *Consensus
			for i := range 120 {
				last = shortConsensus(when.Add(time.Duration(i) * x.every))
				w.set(last)
			}
			kept := w.history.of[netdoc.FlavorMicrodesc]
			if len(kept) != x.want || kept[x.want-1].SHA3 != last.SHA3 {
				t.Errorf("every %v: %d are kept, not the last %d", x.every, len(kept), x.want)
			}
			if onDisk && len(w.files()) != x.want {
				t.Errorf("every %v: %d files", x.every, len(w.files()))
			}
			for _, e := range kept {
				if e.text != nil || (e.packed == nil) != onDisk {
					t.Fatal("it is kept in another form")
				}
			}
			if !onDisk {
				if text, err := kept[0].Text(); err != nil || !bytes.HasPrefix(text, []byte("network-status-version")) {
					t.Errorf("%q, %v", text, err)
				}
			}
		}
	}
}

// TestHistorySizes: the files, and what is in memory, have a bound together.
func TestHistorySizes(t *testing.T) {
	var h history
	c := shortConsensus(when)
	for i := range 10 {
		at := when.Add(time.Duration(i-10) * time.Hour)
		h.of[c.Flavor] = append(h.of[c.Flavor], &Earlier{Flavor: c.Flavor, ValidAfter: at, size: maxEarlierMemory / 4})
	}
	h.trimLocked(c)
	if kept := h.of[c.Flavor]; len(kept) != 4 || !kept[3].ValidAfter.Equal(when.Add(-time.Hour)) {
		t.Errorf("%d are kept", len(kept))
	}
}

// TestHistoryWithoutDisk: on a full disk the consensus before stays in memory, and clients get the diff from it.
func TestHistoryWithoutDisk(t *testing.T) {
	w := newHistoryWorld(t)
	if err := os.WriteFile(w.dir, nil, 0o600); err != nil { // no folder can be made
		t.Fatal(err)
	}
	w.SetConsensus(w.old)
	if err := w.Keep(w.old); err == nil {
		t.Error("it was written to nowhere")
	}
	w.SetConsensus(w.read("consensus-microdesc"))
	if !w.diff() {
		t.Error("no diff")
	}
	// A folder that cannot be read is an error, and all stays in memory.
	m := new(Memory)
	if err := m.KeepIn(w.dir, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a file is taken for a folder")
	}
	if err := m.Keep(w.old); err != nil || m.Earlier(w.old.Flavor, w.old.SHA3) == nil {
		t.Errorf("without a folder: %v", err)
	}
}

// TestHistoryGivesWhatItHas: after a restart the compressed form of the current consensus is the file's, and the file is not
// written again; unless it has other signatures.
func TestHistoryGivesWhatItHas(t *testing.T) {
	w := newHistoryWorld(t)
	w.set(w.old)
	file := w.fileOf(w.old)
	fast := packed(t, w.old.Doc.body)
	if err := os.WriteFile(file, fast, 0o600); err != nil {
		t.Fatal(err)
	}
	w.open()
	again := w.read("consensus-microdesc-old")
	w.set(again)
	got, err := again.Doc.encoded("x-zstd")
	now, err2 := os.ReadFile(file)
	if err != nil || err2 != nil || !bytes.Equal(got, fast) || !bytes.Equal(now, fast) {
		t.Errorf("compressed again (%v, %v)", err, err2)
	}
	text := testdata(t, "consensus-microdesc-old")
	fewer, err := NewConsensus(text[:bytes.LastIndex(text, []byte("directory-signature "))])
	if err != nil || fewer.SHA3 != again.SHA3 {
		t.Fatal(err)
	}
	w.set(fewer)
	if kept, err := w.Earlier(fewer.Flavor, fewer.SHA3).Text(); err != nil || !bytes.Equal(kept, fewer.Doc.body) {
		t.Errorf("another text is kept (%v)", err)
	}
}

// TestHourLevel: what is served for an hour is compressed harder than a diff, and is the same.
func TestHourLevel(t *testing.T) {
	n, err := dirgen.New(dirgen.Options{Relays: 3500})
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Consensus) < bestFrom {
		t.Fatalf("a consensus of %d bytes only", len(n.Consensus))
	}
	var sizes [2]int
	for i, hour := range []bool{false, true} {
		b, err := encode(n.Consensus, "x-zstd", hour)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := unpack(b); err != nil || !bytes.Equal(text, n.Consensus) {
			t.Error("another text", err)
		}
		sizes[i] = len(b)
	}
	if sizes[1] >= sizes[0]*98/100 {
		t.Errorf("%d bytes, and %d of an hour's document", sizes[0], sizes[1])
	}
	c := fmt.Sprint(zstdLevel(bestFrom-1, true), zstdLevel(bestFrom, false))
	if c != fmt.Sprint(zstd.SpeedDefault, zstd.SpeedDefault) {
		t.Error(c)
	}
}
