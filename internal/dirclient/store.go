package dirclient

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// The cache's files. They contain texts as received from the network. Texts are verified again after reading, so
// files need no checksum, and a crash during a write only costs another download.
const (
	consensusFile = "consensus-microdesc"
	certsFile     = "certs"
	microFile     = "microdescs" // a journal: new ones are appended
	asideSuffix   = ".corrupt"
)

// store is the cache on disk; with an empty dir it stores nothing.
type store struct {
	dir         string
	log         *slog.Logger
	journalSize int64
}

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// sweep removes unfinished files that a killed process left.
func (s *store) sweep() {
	if s.dir == "" {
		return
	}
	if err := atomicfile.Sweep(s.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("directory cache: cannot remove unfinished files", "err", err)
	}
}

// read returns a file's content; or nil if there is none.
func (s *store) read(name string) []byte {
	if s.dir == "" {
		return nil
	}
	b, err := atomicfile.ReadRegular(s.path(name), math.MaxInt-1)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("directory cache: cannot read", "file", name, "err", err)
	}
	return b
}

// write replaces a file atomically: a reader sees the old content or the new one. It reports
// whether the file has the new one.
func (s *store) write(name string, data []byte) bool {
	if s.dir == "" {
		return false
	}
	err := s.replace(name, func(w io.Writer) error { _, err := w.Write(data); return err })
	if err != nil {
		s.log.Warn("directory cache: cannot write", "file", name, "err", err)
	}
	return err == nil
}

func (s *store) replace(name string, fill func(io.Writer) error) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	return atomicfile.Fill(s.path(name), atomicfile.Secret, fill)
}

// setAside renames a file that cannot be used, so that a person can inspect it.
func (s *store) setAside(name string, why error) {
	s.log.Warn("directory cache: a file cannot be used; it was renamed, and its content is fetched again", "file", name, "aside", name+asideSuffix, "err", why)
	if err := os.Rename(s.path(name), s.path(name+asideSuffix)); err != nil {
		s.log.Warn("directory cache: cannot rename a file", "file", name, "err", err)
	}
	if name == microFile {
		s.journalSize = 0
	}
}

// appendMicrodescs adds texts to the journal.
func (s *store) appendMicrodescs(text []byte) {
	if s.dir == "" || len(text) == 0 {
		return
	}
	err := os.MkdirAll(s.dir, 0o700)
	if err == nil {
		err = s.appendFile(microFile, text)
	}
	if err != nil {
		s.log.Warn("directory cache: cannot write", "file", microFile, "err", err)
		return
	}
	s.journalSize += int64(len(text))
}

// appendBounded adds texts to a file, and starts the file anew if it is larger than bound. Lost texts are fetched
// again at the next start.
func (s *store) appendBounded(name string, text []byte, bound int64) {
	if s.dir == "" || len(text) == 0 {
		return
	}
	if st, err := os.Stat(s.path(name)); err == nil && st.Size() > max(bound, 1<<20) {
		s.write(name, text)
		return
	}
	err := os.MkdirAll(s.dir, 0o700)
	if err == nil {
		err = s.appendFile(name, text)
	}
	if err != nil {
		s.log.Warn("directory cache: cannot write", "file", name, "err", err)
	}
}

func (s *store) appendFile(name string, text []byte) error {
	f, err := os.OpenFile(s.path(name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// chunkSize is how much of the journal is in memory at once.
const chunkSize = 256 << 10

// eachChunk reads the journal in pieces of whole microdescriptors. The last piece may be incomplete.
func (s *store) eachChunk(each func([]byte) error) error {
	if s.dir == "" {
		return nil
	}
	f, err := atomicfile.OpenRegular(s.path(microFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	defer f.Close()
	buf := make([]byte, chunkSize)
	n := 0
	for {
		m, err := io.ReadFull(f, buf[n:])
		n += m
		end := err != nil
		if end && err != io.EOF && err != io.ErrUnexpectedEOF {
			return fault.Wrap(fault.Local, err)
		}
		cut := n
		if i := bytes.LastIndex(buf[:n], []byte("\nonion-key\n")); i >= 0 && !end {
			cut = i + 1
		}
		if err := each(buf[:cut]); err != nil || end {
			return err
		}
		n = copy(buf, buf[cut:n])
	}
}

// loadMicrodescs reads the journal into a, and calls keep with the texts that a needs. A damaged journal is
// renamed, and a new one is written with its valid texts.
func (s *store) loadMicrodescs(a *netdir.Adding, keep func([]byte)) {
	var bad error
	var total, kept int64
	err := s.eachChunk(func(b []byte) error {
		total += int64(len(b))
		if len(b) > 0 && !bytes.HasPrefix(b, []byte("onion-key\n")) && bad == nil {
			bad = fault.New(fault.Directory, "it does not begin with a microdescriptor")
		}
		if err := a.Parse(b, func(one []byte) { kept += int64(len(one)); keep(one) }); err != nil && bad == nil {
			bad = err
		}
		return nil
	})
	if err != nil && bad == nil {
		bad = err
	}
	s.journalSize = total
	switch {
	case bad != nil:
		good := s.collect(a.Directory())
		s.setAside(microFile, bad)
		s.appendMicrodescs(good)
	case total > 2*kept+chunkSize:
		s.compact(a.Directory())
	}
}

// collect returns the texts in the journal that d names.
func (s *store) collect(d *netdir.Directory) []byte {
	var good []byte
	want := named(d)
	err := s.eachChunk(func(b []byte) error {
		for one := range netdoc.SplitMicrodescs(b) {
			if h := sha256.Sum256(one); want[h] {
				delete(want, h)
				good = append(good, one...)
			}
		}
		return nil
	})
	if err != nil {
		s.log.Warn("directory cache: cannot read", "file", microFile, "err", err)
	}
	return good
}

// compact removes the microdescriptors that d does not name from the journal.
func (s *store) compact(d *netdir.Directory) {
	if s.dir == "" {
		return
	}
	good := s.collect(d)
	s.write(microFile, good)
	s.journalSize = int64(len(good))
}

// named returns the digests that a directory names.
func named(d *netdir.Directory) map[[32]byte]bool {
	m := make(map[[32]byte]bool, d.Len())
	for r := range d.All() {
		m[r.MicrodescDigest()] = true
	}
	return m
}
