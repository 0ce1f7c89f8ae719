package site

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Options say what of a folder is shown.
type Options struct {
	List bool // a list of what is in a directory without index.html
	Dot  bool // names that begin with a dot
}

// index is the file that stands for its directory.
const index = "index.html"

// folder is the files that a server has now.
type folder struct {
	opt Options
	tag []byte // key of the entity tags

	lists lists

	root  *os.Root
	users atomic.Int32 // requests, and the server while it serves this folder
}

// openFolder opens a folder. Nothing outside of it can be reached through it, by no name and by no
// link.
func openFolder(dir string, opt Options) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.New(fault.Config, "folder of files: %w", err)
	}
	f := &folder{opt: opt, root: root, tag: make([]byte, sha256.Size), lists: lists{making: make(chan struct{}, listers), sent: map[string]*list{}}}
	f.users.Store(1)
	rand.Read(f.tag) // never fails
	return f, nil
}

// release ends a use of the folder. The last one closes it.
func (f *folder) release() error {
	if f.users.Add(-1) > 0 {
		return nil
	}
	return f.root.Close()
}

// ServeHTTP implements http.Handler.
func (f *folder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Date"] = nil // the clock's error tells machines apart
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed)
		return
	}
	if r.ContentLength != 0 {
		refuse(w, http.StatusBadRequest)
		return
	}
	name, slash := cleaned(r.URL.Path)
	if !f.opt.Dot && (hidden(name) || !f.itsOwn(name)) {
		refuse(w, http.StatusNotFound)
		return
	}
	file, st, err := f.open(name)
	switch {
	case err != nil:
		refuse(w, statusOf(err))
	case st.IsDir():
		f.serveDir(w, r, name, slash)
	case slash:
		file.Close()
		refuse(w, http.StatusNotFound)
	default:
		defer file.Close()
		f.serveFile(w, r, name, file, st)
	}
}

// refuse answers with an error that says nothing of the request or of the folder, and ends the
// connection if something else than GET came: then there may be a body, which nobody reads.
func refuse(w http.ResponseWriter, status int) {
	if status == http.StatusMethodNotAllowed || status == http.StatusBadRequest {
		w.Header().Set("Connection", "close")
	}
	http.Error(w, http.StatusText(status), status)
}

// cleaned returns the name in the folder that a path stands for, and whether the path is one of a
// directory.
func cleaned(p string) (name string, slash bool) {
	name = strings.TrimPrefix(path.Clean("/"+p), "/")
	if name == "" {
		return ".", true
	}
	return name, strings.HasSuffix(p, "/")
}

// hidden reports whether a part of a name begins with a dot.
func hidden(name string) bool {
	return name != "." && (name[0] == '.' || strings.Contains(name, "/."))
}

// open opens a regular file. Of a directory it returns only what it is. It waits for nothing: what is
// no file is not opened, since a pipe would wait for its writer, and a device may do anything.
func (f *folder) open(name string) (*os.File, fs.FileInfo, error) {
	st, err := f.root.Stat(name)
	if err != nil || st.IsDir() {
		return nil, st, err
	}
	if !st.Mode().IsRegular() {
		return nil, nil, fs.ErrNotExist
	}
	return f.openRegular(name)
}

// openRegular opens what was a regular file a moment ago.
func (f *folder) openRegular(name string) (*os.File, fs.FileInfo, error) {
	file, err := f.root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	st, err := file.Stat()
	if err == nil && !st.Mode().IsRegular() { // it was replaced meanwhile
		err = fs.ErrNotExist
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, st, nil
}

// statusOf returns what a client hears of an error.
func statusOf(err error) int {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return http.StatusForbidden
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		return http.StatusServiceUnavailable
	}
	return http.StatusNotFound // a link that leads out of the folder, too
}

func (f *folder) serveFile(w http.ResponseWriter, r *http.Request, name string, file *os.File, st fs.FileInfo) {
	h := w.Header()
	h.Set("Content-Type", typeOf(name, file))
	h.Set("ETag", f.entityTag(name, st))
	if strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range") // many parts cost more than the whole, which is always a right answer
	}
	// Without a time: when a file was changed says something of who did it.
	http.ServeContent(w, r, "", time.Time{}, file)
}

// entityTag names the state of a file, so that clients can ask whether it has changed. It
// does not tell the time at which it did.
func (f *folder) entityTag(name string, st fs.FileInfo) string {
	m := hmac.New(sha256.New, f.tag)
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(st.Size()))
	binary.BigEndian.PutUint64(b[8:], uint64(st.ModTime().UnixNano()))
	m.Write(b[:])
	io.WriteString(m, name)
	return `"` + base64.RawURLEncoding.EncodeToString(m.Sum(nil)[:15]) + `"`
}

func (f *folder) serveDir(w http.ResponseWriter, r *http.Request, name string, slash bool) {
	if !slash {
		to := url.URL{Path: path.Base(name) + "/", RawQuery: r.URL.RawQuery} // relative: it leads to no other host
		w.Header().Set("Location", to.String())
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	at := path.Join(name, index)
	file, st, err := f.open(at)
	switch {
	case err == nil && !st.IsDir():
		defer file.Close()
		f.serveFile(w, r, at, file, st)
	case f.opt.List && errors.Is(err, fs.ErrNotExist):
		f.serveList(w, r, name)
	case err == nil:
		refuse(w, http.StatusNotFound)
	default:
		refuse(w, statusOf(err))
	}
}
