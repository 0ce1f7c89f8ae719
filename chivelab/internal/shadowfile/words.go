package shadowfile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// mostWords bounds what is told of a program's output.
const mostWords = 600

// LastWords is the end of what the programs of a host have said on standard error, if they have. dir is the host's, in the
// directory that the simulator makes.
func LastWords(dir string) string {
	files, err := os.ReadDir(dir)
	if err != nil {
		return "" // what is missing is named already
	}
	var b strings.Builder
	for _, f := range files {
		if filepath.Ext(f.Name()) != ".stderr" {
			continue
		}
		n := filepath.Join(dir, f.Name())
		if text := tail(n); text != "" {
			fmt.Fprintf(&b, "\n%s ends with: %s", n, text)
		}
	}
	return b.String()
}

// tail is the end of a file, or why it cannot be read.
func tail(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	if !st.Mode().IsRegular() {
		return ""
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, st.Size()-mostWords), mostWords))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}
