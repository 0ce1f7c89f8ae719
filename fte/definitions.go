package fte

import (
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/chivenet/chive/fte/internal/formats"
	"github.com/chivenet/chive/fte/lang"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/tomlfile"
)

// DefaultFormat is fteproxy's default format, without its direction.
const DefaultFormat = "manual-http"

// maxWord is the length of the longest word that a connection uses, in bytes.
const maxWord = 4096

// Bounds of all formats of one set together. A server of the classic protocol builds
// the tables of each format, and a file may have a thousand formats. The bounds are
// the bytes of tables, and the bytes that count for a format that cannot be built,
// because it took time.
const (
	maxTables  = 64 << 20
	failedCost = 1 << 20
)

const (
	requestSuffix  = "-request"
	responseSuffix = "-response"
)

// Definitions is a set of named formats. It is safe for concurrent use. A format's
// tables are built at its first use.
type Definitions struct {
	release string
	names   []string
	formats map[string]*Format
	room    *atomic.Int64 // bytes that are left for the formats' tables
}

// Format is the format of one direction: the words of one length of a language.
type Format struct {
	Name        string // "base64-request"
	Pattern     string // the regular expression
	Slice       int    // bytes of a word
	Description string

	opts  lang.Options
	room  *atomic.Int64 // of its Definitions; nil: it belongs to none
	once  sync.Once
	lang  *lang.Language
	slice *lang.Slice
	err   error

	streamOnce sync.Once
	streamErr  error
}

// Release returns the built-in definitions of a release: "20131224" (fteproxy 0.2),
// "20260110" (0.3), or "" for the latest. With order019, words are numbered as in
// fteproxy 0.2.19, otherwise as in 0.3.
func Release(name string, order019 bool) (*Definitions, error) {
	if name == "" {
		name = formats.DefaultRelease
	}
	d, err := formats.Builtin(name)
	if err != nil {
		return nil, err
	}
	return prepare(d, order019), nil
}

// ReadDefinitions reads a definitions file of fteproxy; release is the eight
// digits that name it in the protocol.
func ReadDefinitions(release string, r io.Reader, order019 bool) (*Definitions, error) {
	d, err := formats.Read(release, r)
	if err != nil {
		return nil, err
	}
	return prepare(d, order019), nil
}

func prepare(d *formats.Definitions, order019 bool) *Definitions {
	opts := lang.Options{ClassicEscapes: true}
	if order019 {
		opts.Order = lang.FirstAppearance
	}
	room := new(atomic.Int64)
	room.Store(maxTables)
	p := &Definitions{release: d.Release, names: d.Names(), formats: make(map[string]*Format, len(d.Formats)), room: room}
	for _, f := range d.Formats {
		p.formats[f.Name] = &Format{Name: f.Name, Pattern: f.Pattern, Slice: f.Slice, Description: f.Description, opts: opts, room: room}
	}
	return p
}

// NewFormat returns a format of the caller's own: the words of slice bytes that match
// a pattern of package lang.
func NewFormat(name, pattern string, slice int) *Format {
	return &Format{Name: name, Pattern: pattern, Slice: slice}
}

// Release returns the eight digits that name the definitions.
func (d *Definitions) Release() string { return d.release }

// Names returns the names of the formats that have both directions, without the
// suffix of the direction, in the file's order.
func (d *Definitions) Names() []string { return append([]string(nil), d.names...) }

// Format returns the format of one direction, by its full name.
func (d *Definitions) Format(name string) (*Format, error) {
	f, ok := d.formats[name]
	if !ok {
		if near := tomlfile.Nearest(name, slices.Sorted(maps.Keys(d.formats))); near != "" {
			return nil, fault.New(fault.Config, "release %s has no format %q; did you mean %q?", d.release, name, near)
		}
		return nil, fault.New(fault.Config, "release %s has no format %q; chive fte formats lists them", d.release, name)
	}
	return f, nil
}

// Pair returns the two directions of a name without suffix.
func (d *Definitions) Pair(name string) (request, response *Format, err error) {
	if request, err = d.Format(name + requestSuffix); err != nil {
		return nil, nil, err
	}
	response, err = d.Format(name + responseSuffix)
	return request, response, err
}

// full reports whether the tables of all formats did not fit into the bound.
func (d *Definitions) full() bool { return d.room.Load() < 0 }

// base returns the name of a request format without its direction.
func (f *Format) base() string { return strings.TrimSuffix(f.Name, requestSuffix) }

// Language returns the format's language, which is safe for concurrent use.
func (f *Format) Language() (*lang.Language, error) {
	_, err := f.Words()
	return f.lang, err
}

// Words returns the coder of the format's words, which is safe for concurrent use.
func (f *Format) Words() (*lang.Slice, error) {
	f.once.Do(func() {
		if f.err = f.build(); f.err != nil {
			f.err = fault.New(fault.KindOf(f.err), "format %q: %w", f.Name, f.err)
			f.lang, f.slice = nil, nil
		}
	})
	return f.slice, f.err
}

// build makes the format's tables.
func (f *Format) build() (err error) {
	if f.Slice < 1 || f.Slice > maxWord {
		return fault.New(fault.Config, "words of %d bytes: a connection takes 1 to %d", f.Slice, maxWord)
	}
	if f.room != nil && f.room.Load() < 0 {
		return errTables
	}
	if f.lang, err = lang.Compile(f.Pattern, f.opts); err == nil {
		f.slice, err = f.lang.Slice(f.Slice)
	}
	if f.room == nil {
		return err
	}
	cost := failedCost
	if err == nil {
		cost = f.lang.Size() + f.slice.Size()
	}
	if f.room.Add(-int64(cost)) < 0 && err == nil {
		return errTables
	}
	return err
}

// stream returns the format's language when the tables of its streaming coder are made.
// Words has succeeded.
func (f *Format) stream() (*lang.Language, error) {
	f.streamOnce.Do(func() {
		before := f.lang.Size()
		if _, err := f.lang.NewEncoder(); err != nil {
			f.streamErr = fault.New(fault.KindOf(err), "format %q: %w", f.Name, err)
		} else if f.room != nil && f.room.Add(int64(before-f.lang.Size())) < 0 {
			f.streamErr = errTables
		}
	})
	return f.lang, f.streamErr
}

var errTables = fault.New(fault.Resource, "the tables of all formats of the definitions take more than %d bytes: leave some out, or use shorter words", maxTables)
