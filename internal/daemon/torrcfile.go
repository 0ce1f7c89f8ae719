package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/tomlfile"
	"github.com/chivenet/chive/internal/torrc"
)

// maxIncluded bounds the paths that one %include names, with those in its folders: a folder
// may have a link to itself.
const maxIncluded = 1000

// ReadTorrc reads a torrc and the files that it includes. The torrc itself may be a pipe, which
// the user has named; it includes only regular files. The mode is that of a file for the same
// readers: it may have a proxy's password, and must be readable for a service's user if the
// torrc is.
func ReadTorrc(path string) ([]torrc.Line, os.FileMode, error) {
	text, err := atomicfile.Read(path, tomlfile.MaxSize)
	if err != nil {
		return nil, atomicfile.Report, fault.New(fault.Config, "torrc: %w", err)
	}
	return TorrcOf(path, text)
}

// TorrcOf is ReadTorrc for a file whose text was read already.
func TorrcOf(path string, text []byte) ([]torrc.Line, os.FileMode, error) {
	mode := atomicfile.Report
	see := func(path string) {
		if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || st.Mode().Perm()&0o004 == 0 {
			mode = atomicfile.Secret
		}
	}
	see(path)
	lines, err := torrc.Lines(torrc.Source{Name: path, Text: text}, func(pattern string) ([]torrc.Source, error) {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		if len(paths) == 0 && !strings.ContainsAny(pattern, "*?[") {
			return nil, fmt.Errorf("%s does not exist", pattern)
		}
		var out []torrc.Source
		for i := 0; i < len(paths); i++ {
			if len(paths) > maxIncluded {
				return nil, fmt.Errorf("%s names more than %d files", pattern, maxIncluded)
			}
			if st, err := os.Stat(paths[i]); err == nil && st.IsDir() {
				inside, err := filepath.Glob(filepath.Join(paths[i], "[^.]*"))
				if err != nil {
					return nil, err
				}
				paths = slices.Insert(paths, i+1, inside...)
				continue
			}
			see(paths[i])
			text, err := atomicfile.ReadRegular(paths[i], tomlfile.MaxSize)
			if err != nil {
				return nil, err
			}
			out = append(out, torrc.Source{Name: paths[i], Text: text})
		}
		return out, nil
	})
	return lines, mode, err
}

// AtHome replaces "~" with this user's home where C tor does.
func AtHome(doc *torrc.Document) error {
	for _, s := range doc.Settings {
		rest, ok := strings.CutPrefix(s.Values[0], "~")
		if !ok || !slices.Contains([]string{"data-dir", "key-dir", "log-file"}, s.Key) {
			continue
		}
		home, err := os.UserHomeDir()
		if err != nil || rest != "" && rest[0] != '/' {
			return fault.New(fault.Config, "%s: %s: the home that ~ stands for is not known: write the whole path", s.From[0].At(), s.From[0].Key)
		}
		s.Values[0] = home + rest
	}
	return nil
}

// TOMLValue writes the values as the option's type wants them.
func TOMLValue(s *torrc.Setting, fresh func() *Settings) string {
	kind := ""
	for _, v := range fresh().All() {
		if v.Key == s.Key {
			kind = v.Type()
		}
	}
	switch kind {
	case "stringSlice", "stringArray", "stringToInt":
		quoted := make([]string, len(s.Values))
		for i, v := range s.Values {
			quoted[i] = strconv.Quote(v)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case "bool", "int", "uint64":
		return s.Values[0]
	}
	return strconv.Quote(strings.Join(s.Values, ",")) // several: a list between commas
}
