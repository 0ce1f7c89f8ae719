package site

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of the list of a directory.
const (
	maxListed = 5000    // names
	maxList   = 1 << 20 // bytes, and one name more
)

const (
	// listers is how many lists are made at a time. One of a large directory takes tens of milliseconds of a processor, and clients
	// can ask for hundreds with one cell.
	listers = 1
	// listAge is how old a list may be. So clients who ask for one again and again cost little.
	listAge = 2 * time.Second
	// maxKept is how many lists are kept that are being sent to nobody.
	maxKept = 8
)

// lists keeps one copy of each list, for all clients to whom it is being sent: they may read as slowly as they
// like, and then hold no more than one that reads fast.
type lists struct {
	making chan struct{} // a place for each list that is being made

	mu   sync.Mutex
	sent map[string]*list // by directory, guarded by mu: the newest
}

// list is what was sent last of a directory.
type list struct {
	html  []byte
	users int       // guarded by mu of lists
	made  time.Time // guarded by mu of lists
}

// fresh returns the list of a directory if there is one that is new enough, for the caller to release; nil: there is none.
func (l *lists) fresh(name string, now time.Time) *list {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.sent[name]
	if have == nil || now.Sub(have.made) >= listAge {
		return nil
	}
	have.users++
	return have
}

// use returns the list of a directory, for the caller to release: html, or what it has already if that is the
// same.
func (l *lists) use(name string, html []byte, now time.Time) *list {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.sent[name]
	if have == nil || !bytes.Equal(have.html, html) {
		have = &list{html: html}
		l.sent[name] = have
	}
	have.users++
	have.made = now
	return have
}

func (l *lists) release(one *list, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.users--
	for l.spareLocked(now) {
	}
}

// spareLocked forgets the oldest list that is being sent to nobody, if it is too old or one too many.
func (l *lists) spareLocked(now time.Time) bool {
	oldest, idle := "", 0
	for name, one := range l.sent {
		if one.users > 0 {
			continue
		}
		if idle++; idle == 1 || one.made.Before(l.sent[oldest].made) {
			oldest = name
		}
	}
	if idle == 0 || idle <= maxKept && now.Sub(l.sent[oldest].made) < listAge {
		return false
	}
	delete(l.sent, oldest)
	return true
}

// serveList answers with the names of a directory's files and directories, and nothing else of
// them.
func (f *folder) serveList(w http.ResponseWriter, r *http.Request, name string) {
	one, err := f.list(r.Context(), name)
	if err != nil {
		refuse(w, statusOf(err))
		return
	}
	defer func() { f.lists.release(one, time.Now()) }()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(one.html) // an error means that the client has gone
}

// list returns the list of a directory, for the caller to release. It waits while others are being made.
func (f *folder) list(ctx context.Context, name string) (*list, error) {
	if one := f.lists.fresh(name, time.Now()); one != nil {
		return one, nil
	}
	select {
	case f.lists.making <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-f.lists.making }()
	if one := f.lists.fresh(name, time.Now()); one != nil { // somebody made it meanwhile
		return one, nil
	}
	html, err := f.makeList(name)
	if err != nil {
		return nil, err
	}
	return f.lists.use(name, html, time.Now()), nil
}

func (f *folder) makeList(name string) ([]byte, error) {
	names, more, err := f.names(name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	title := html.EscapeString(strings.TrimPrefix("/"+name+"/", "/."))
	fmt.Fprintf(&b, "<!doctype html>\n<meta charset=\"utf-8\">\n<title>%s</title>\n<h1>%s</h1>\n<ul>\n", title, title)
	if name != "." {
		b.WriteString("<li><a href=\"../\">../</a>\n")
	}
	for _, n := range names {
		if b.Len() > maxList {
			more = true
			break
		}
		to := url.URL{Path: n}
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a>\n", html.EscapeString(to.String()), html.EscapeString(n))
	}
	b.WriteString("</ul>\n")
	if more {
		b.WriteString("<p>There are more.\n")
	}
	return bytes.Clone(b.Bytes()), nil // without the buffer's free space
}

// names returns the names in a directory that can be asked for, in order: those of directories end in
// a slash.
func (f *folder) names(dir string) (names []string, more bool, err error) {
	d, err := f.root.OpenFile(dir, os.O_RDONLY|nonblock, 0) // it may be a pipe meanwhile
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	entries, err := d.ReadDir(maxListed + 1)
	if len(entries) == 0 && err != nil { // at the end, it is io.EOF
		return nil, false, nil
	}
	for _, e := range entries[:min(len(entries), maxListed)] {
		mode := e.Type()
		if mode&fs.ModeSymlink != 0 {
			st, err := f.root.Stat(path.Join(dir, e.Name()))
			if err != nil {
				continue // it leads out of the folder, or to nothing
			}
			mode = st.Mode().Type()
		}
		switch name := e.Name(); {
		case name[0] == '.' && !f.opt.Dot:
		case mode.IsDir():
			names = append(names, name+"/")
		case mode.IsRegular():
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, len(entries) > maxListed, nil
}
