// Package fetch downloads URLs to files or to standard output, as curl and wget do:
// with a partial file that a later run continues, and new attempts after a broken
// connection. It opens connections only by a function that it receives.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Options are the settings of some downloads.
type Options struct {
	URLs    []string
	Headers []string // "Name: value"

	// Out is a file for a single URL, or "-" for Stdout. If it is empty, a single URL
	// goes to Stdout too, and several go to files in Dir. If Dir is not empty, a single
	// URL also gets a file there. The file's name comes from the URL.
	Out, Dir string
	Stdout   io.Writer

	Continue bool // go on with partial files of an earlier run
	Retries  int  // after broken connections, for each URL

	Timeout        time.Duration // for each URL; 0: none
	ConnectTimeout time.Duration // until a connection is open; 0: none

	// Dial opens every connection. There is no other way to connect or to look a
	// name up.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Show is called with the progress, and Note with what else the user should know.
	// Both may be nil.
	Show func(Progress)
	Note func(text string)
}

// Progress is how far a download has come.
type Progress struct {
	Name  string // of the file; empty: standard output
	Have  int64  // bytes, with those of an earlier run
	Total int64  // bytes; -1: unknown
	Rate  int64  // bytes a second, lately
}

// StatusError is an answer other than success.
type StatusError struct{ Status string }

func (e *StatusError) Error() string { return "the server answered " + e.Status }

// ServersOnly reports whether all that failed in Get failed because servers answered with
// an error.
func ServersOnly(err error) bool {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(all.Unwrap(), func(err error) bool { return !ServersOnly(err) })
	}
	_, ok := errors.AsType[*StatusError](err)
	return ok
}

// Check reports the first mistake in the options. It opens nothing.
func (o *Options) Check() error {
	_, err := newGetter(*o)
	return err
}

// Get downloads all URLs, one after the other. A file appears under its name only
// when it is complete. If one URL fails, Get goes on with the next; the error is about
// all that failed. Mistakes in the options are of kind fault.Config, and nothing is
// downloaded then.
func Get(ctx context.Context, o Options) error {
	g, err := newGetter(o)
	if err != nil {
		return err
	}
	if err := g.openFolder(); err != nil {
		return err
	}
	g.client = g.newClient()
	var all []error
	for _, u := range g.urls {
		err := g.one(ctx, u)
		if err != nil && len(g.urls) > 1 {
			err = fault.New(fault.KindOf(err), "%s: %w", u.Redacted(), err)
		}
		if err != nil {
			all = append(all, fault.New(fault.KindOf(err), "get: %w", err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(append(all, g.close())...)
}

// getter is Options that were checked.
type getter struct {
	Options
	urls   []*url.URL
	header http.Header
	host   string // the header Host; empty: the URL's
	client *http.Client
	folder *folder  // nil: all goes to Stdout
	pipe   *os.File // a device or a pipe that the user has chosen; then it is Stdout
}

func newGetter(o Options) (*getter, error) {
	g := &getter{Options: o, header: http.Header{}}
	if g.Note == nil {
		g.Note = func(string) {}
	}
	if g.Show == nil {
		g.Show = func(Progress) {}
	}
	for _, s := range o.URLs {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return nil, fault.New(fault.Config, "get: %q is not a URL that begins with http:// or https:// and a host", s)
		}
		u.Fragment = "" // no server sees it
		g.urls = append(g.urls, u)
	}
	g.header.Set("User-Agent", "") // Go's own would tell what program asks
	for _, h := range o.Headers {
		name, value, ok := strings.Cut(h, ":")
		value = strings.TrimSpace(value)
		if !ok || !isHeader(name, value) {
			return nil, fault.New(fault.Config, "get: header %q is not NAME: VALUE", h)
		}
		if strings.EqualFold(name, "Host") {
			g.host = value
			continue
		}
		g.header.Set(name, value)
	}
	switch {
	case o.Out != "" && o.Dir != "":
		return nil, fault.New(fault.Config, "get: give an output file or an output directory, not both")
	case o.Out != "" && o.Out != "-" && len(o.URLs) > 1:
		return nil, fault.New(fault.Config, "get: %d URLs do not fit into one file: give an output directory", len(o.URLs))
	case o.Continue && g.toStdout():
		return nil, fault.New(fault.Config, "get: only a file can be continued: give an output file or directory")
	}
	return g, nil
}

func (g *getter) toStdout() bool {
	return g.Out == "-" || g.Out == "" && g.Dir == "" && len(g.URLs) <= 1
}

func (g *getter) close() error {
	g.client.CloseIdleConnections()
	if g.folder != nil {
		g.folder.Close()
	}
	if g.pipe != nil {
		return fault.Wrap(fault.Local, g.pipe.Close())
	}
	return nil
}

var errWhole = errors.New("the time for the whole download is over")

// one downloads one URL.
func (g *getter) one(ctx context.Context, u *url.URL) error {
	if g.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, g.Timeout, errWhole)
		defer cancel()
	}
	if g.folder == nil {
		return g.fill(ctx, &download{getter: g, url: u, sink: &stream{w: g.Stdout}})
	}
	to, err := g.folder.target(withoutUser(u), fileName(u), g.Continue)
	if err != nil {
		return err
	}
	if to == nil {
		g.Note(fmt.Sprintf("%s is there already", fileName(u)))
		return nil
	}
	err = g.fill(ctx, &download{getter: g, url: u, name: to.name, sink: to})
	if err == nil {
		return to.finish()
	}
	return to.keep(err)
}

// withoutUser returns a URL without a user's name and password, which belong in no file.
func withoutUser(u *url.URL) string {
	bare := *u
	bare.User = nil
	return bare.String()
}

// The pauses before new attempts.
const (
	firstPause = time.Second
	maxPause   = 30 * time.Second
)

// fill makes attempts until a download is complete.
func (g *getter) fill(ctx context.Context, d *download) error {
	pause := firstPause
	for left := g.Retries; ; left-- {
		err := d.attempt(ctx)
		for errors.Is(err, errMore) { // each time with more bytes than before
			err = d.attempt(ctx)
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return over(ctx)
		}
		if left <= 0 || isFinal(err) {
			return err
		}
		g.Note(fmt.Sprintf("%v; trying again in %v", err, pause))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return over(ctx)
		}
		pause = min(2*pause, maxPause)
	}
}

// over returns why a context has ended.
func over(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		return fault.New(fault.Closed, "stopped")
	}
	return fault.Wrap(fault.Timeout, cause)
}
