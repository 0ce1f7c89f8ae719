package site

import (
	"bytes"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// maxListed bounds the names in the list of a directory.
const maxListed = 5000

// serveList answers with the names of a directory's files and directories, and nothing else of
// them.
func (f *folder) serveList(w http.ResponseWriter, name string) {
	names, more, err := f.names(name)
	if err != nil {
		refuse(w, statusOf(err))
		return
	}
	var b bytes.Buffer
	title := html.EscapeString(strings.TrimPrefix("/"+name+"/", "/."))
	fmt.Fprintf(&b, "<!doctype html>\n<meta charset=\"utf-8\">\n<title>%s</title>\n<h1>%s</h1>\n<ul>\n", title, title)
	if name != "." {
		b.WriteString("<li><a href=\"../\">../</a>\n")
	}
	for _, n := range names {
		to := url.URL{Path: n}
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a>\n", html.EscapeString(to.String()), html.EscapeString(n))
	}
	b.WriteString("</ul>\n")
	if more {
		b.WriteString("<p>There are more.\n")
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // an error means that the client has gone
}

// names returns the names in a directory that can be asked for, in order: those of directories end in
// a slash.
func (f *folder) names(dir string) (names []string, more bool, err error) {
	d, err := f.root.Open(dir)
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
