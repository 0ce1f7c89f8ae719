package find

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/devp2p/internal/nodelist"
	"github.com/chivenet/chive/program"
)

// Lists are signed lists of nodes at URLs.
type Lists struct {
	URLs   []string     // https, or http to an onion
	Client *http.Client // through Tor
	Keys   []ed25519.PublicKey
	Newest *Newest      // nil: what was read is known as long as Run runs
	Log    *slog.Logger // gets no URL
}

// The times of lists at URLs.
const (
	listTimeout = time.Minute // for one answer
	listAgain   = 6 * time.Hour
	listMin     = 30 * time.Second // after a failure; it doubles up to listMax
	listMax     = 30 * time.Minute
)

// IsURL reports whether the value of a flag names a list at a URL, and not a file.
func IsURL(value string) bool {
	return strings.HasPrefix(value, "https://") || strings.HasPrefix(value, "http://")
}

// Run gets the lists until ctx ends, again and again as their publishers change them, and gives their
// nodes to sink. An error is a mistake in the configuration. What fails later is tried again.
func (l Lists) Run(ctx context.Context, sink Sink) error {
	if l.Client == nil {
		return errors.New("find: an HTTP client is required: one through Tor")
	}
	for _, text := range l.URLs {
		if err := CheckList(text); err != nil {
			return fmt.Errorf("find: a list of nodes: %w", err)
		}
	}
	if l.Newest == nil {
		l.Newest = new(Newest)
	}
	l.Client = careful(l.Client)
	var wg sync.WaitGroup
	for i, u := range l.URLs {
		wg.Go(func() { l.follow(ctx, i+1, u, sink) })
	}
	wg.Wait()
	return nil
}

// CheckList refuses a URL that Lists would not read.
func CheckList(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return fmt.Errorf("%q is no URL", text)
	}
	if !protected(u) {
		return fmt.Errorf("%q: want https, or http to an onion", text)
	}
	return nil
}

// protected reports whether nobody between reads or changes what a URL has.
func protected(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && chive.IsOnionHost(u.Hostname())
}

// maxRedirects is how often one question may be sent elsewhere.
const maxRedirects = 3

// careful returns a client that a server can send only to where a flag could have sent it, and from an onion to no exit.
func careful(c *http.Client) *http.Client {
	careful := *c
	careful.CheckRedirect = func(next *http.Request, before []*http.Request) error {
		switch {
		case len(before) > maxRedirects:
			return errors.New("the server sends to another place again and again")
		case !protected(next.URL):
			return errors.New("the server sends to a place that is neither https nor an onion")
		case chive.IsOnionHost(before[0].URL.Hostname()) && !chive.IsOnionHost(next.URL.Hostname()):
			return errors.New("the onion sends to a place outside onions")
		}
		return nil
	}
	return &careful
}

// follow gets one list again and again.
func (l Lists) follow(ctx context.Context, number int, at string, sink Sink) {
	wait := listMin
	for {
		list, err := l.get(ctx, at)
		if lost := (*errNotKept)(nil); errors.As(err, &lost) {
			l.Log.Warn("the age of a list of nodes cannot be kept: after a restart, an older one would be taken", "list", number, "err", lost.err)
			err = nil
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			l.Log.Warn("a list of nodes cannot be used", "list", number, "err", err)
		default:
			for _, n := range list.Nodes {
				_ = sink(n, fmt.Sprint("list ", number)) // it says why it refuses; here nothing follows from that
			}
		}
		next := listAgain
		if err != nil {
			next, wait = wait, min(2*wait, listMax)
		} else {
			wait = listMin
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
	}
}

// get gets a list and verifies it. There is a list with an *errNotKept, too.
func (l Lists) get(ctx context.Context, at string) (*nodelist.List, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	resp, err := l.Client.Do(req)
	if err != nil {
		if e := (*url.Error)(nil); errors.As(err, &e) {
			err = e.Err // without the URL
		}
		return nil, program.Why(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers: %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, nodelist.MaxBytes+1))
	if err != nil {
		return nil, program.Why(err)
	}
	list, err := nodelist.Verify(text, l.Keys, time.Now())
	if err != nil {
		return nil, err
	}
	err = l.Newest.take(at, l.Keys, list)
	if old := (*errOld)(nil); errors.As(err, &old) {
		return nil, old
	}
	return list, err
}
