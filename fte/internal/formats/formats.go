// Package formats holds the named formats of fteproxy and reads definitions
// files of its two versions.
//
// A definitions file is a JSON object. Each key is a format's name, which ends in
// -request or -response; its value is an object with the regex and, in 0.3, the
// fixed_slice.
package formats

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"io"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// DefaultSlice is the length of a format's words, in bytes, if a definitions file
// does not give it.
const DefaultSlice = 256

// Bounds of a definitions file.
const (
	maxFile    = 1 << 20 // bytes
	maxFormats = 1024
	maxName    = 64   // bytes
	maxPattern = 4096 // bytes
	maxSlice   = 1 << 16
)

// A Format is one direction of a named format.
type Format struct {
	Name        string // as in the file, with -request or -response
	Pattern     string // regular expression
	Slice       int    // length of a word, in bytes
	Description string
}

// Base returns the name without -request or -response.
func (f *Format) Base() string {
	return strings.TrimSuffix(strings.TrimSuffix(f.Name, "-request"), "-response")
}

// Definitions is the content of a definitions file, in the file's order. A server
// of fteproxy tries formats in this order.
type Definitions struct {
	Release string // YYYYMMDD
	Formats []Format
}

// Lookup returns the format with the given full name.
func (d *Definitions) Lookup(name string) (*Format, bool) {
	for i := range d.Formats {
		if d.Formats[i].Name == name {
			return &d.Formats[i], true
		}
	}
	return nil, false
}

// Names returns the base names that have both a request and a response, in
// the file's order.
func (d *Definitions) Names() []string {
	var names []string
	for i := range d.Formats {
		base, ok := strings.CutSuffix(d.Formats[i].Name, "-request")
		if _, both := d.Lookup(base + "-response"); ok && both {
			names = append(names, base)
		}
	}
	return names
}

//go:embed 20131224.json
var release20131224 []byte

//go:embed 20260110.json
var release20260110 []byte

// DefaultRelease is the release of fteproxy 0.3.2.
const DefaultRelease = "20260110"

// Releases returns the names of the built-in releases, oldest first: fteproxy
// 0.2.19 and 0.3.2 have 20131224, 0.3.2 also has 20260110.
func Releases() []string { return []string{"20131224", DefaultRelease} }

// Builtin returns a built-in release. An unknown name is an error of kind
// fault.Config.
func Builtin(release string) (*Definitions, error) {
	switch release {
	case "20131224":
		return Read(release, bytes.NewReader(release20131224))
	case DefaultRelease:
		return Read(release, bytes.NewReader(release20260110))
	}
	return nil, fault.New(fault.Config, "release %q is not built in; the built-in releases are %s", release, strings.Join(Releases(), " and "))
}

// Read reads a definitions file. The release has eight digits; clients send it to
// servers. A file's name is <release>.json. Errors have kind fault.Config.
func Read(release string, r io.Reader) (*Definitions, error) {
	if len(release) != 8 || strings.Trim(release, "0123456789") != "" {
		return nil, fault.New(fault.Config, "release %q is not a date of the form YYYYMMDD", release)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fault.New(fault.Config, "read definitions %s: %w", release, err)
	}
	if len(data) > maxFile {
		return nil, fault.New(fault.Config, "definitions %s: longer than %d bytes", release, maxFile)
	}
	d := &Definitions{Release: release}
	if err := d.parse(json.NewDecoder(bytes.NewReader(data))); err != nil {
		return nil, fault.New(fault.Config, "definitions %s: %w", release, err)
	}
	return d, nil
}

// parse reads the object key by key, because the order of the keys matters.
func (d *Definitions) parse(dec *json.Decoder) error {
	if t, err := dec.Token(); err != nil {
		return err
	} else if t != json.Delim('{') {
		return fault.New(fault.Config, "the definitions file is not a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		f := Format{Slice: DefaultSlice}
		f.Name, _ = t.(string) // always a string: Token checks the syntax
		if seen[f.Name] {
			return fault.New(fault.Config, "format %q is defined twice", f.Name)
		}
		seen[f.Name] = true
		if err := f.parse(dec); err != nil {
			return err
		}
		if d.Formats = append(d.Formats, f); len(d.Formats) > maxFormats {
			return fault.New(fault.Config, "more than %d formats", maxFormats)
		}
	}
	if _, err := dec.Token(); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fault.New(fault.Config, "there is data after the JSON object")
	}
	return nil
}

// parse reads one format's object. Keys that neither version knows are
// ignored, as both versions do.
func (f *Format) parse(dec *json.Decoder) error {
	var body struct {
		Regex       *string `json:"regex"`
		FixedSlice  *int    `json:"fixed_slice"`
		Description string  `json:"description"`
	}
	if err := dec.Decode(&body); err != nil {
		return fault.New(fault.Config, "format %q: %w", f.Name, err)
	}
	switch {
	case f.Base() == "" || f.Base() == f.Name || len(f.Name) > maxName:
		return fault.New(fault.Config, "format %q: a name must end in -request or -response and have at most %d bytes", f.Name, maxName)
	case body.Regex == nil:
		return fault.New(fault.Config, "format %q has no regex", f.Name)
	case len(*body.Regex) > maxPattern:
		return fault.New(fault.Config, "format %q: the regex is longer than %d bytes", f.Name, maxPattern)
	}
	if body.FixedSlice != nil {
		f.Slice = *body.FixedSlice
	}
	if f.Slice < 1 || f.Slice > maxSlice {
		return fault.New(fault.Config, "format %q: fixed_slice %d is not in 1 to %d", f.Name, f.Slice, maxSlice)
	}
	f.Pattern, f.Description = *body.Regex, body.Description
	return nil
}
