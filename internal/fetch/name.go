package fetch

import (
	"fmt"
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName bounds a name in bytes, with room for what is added to it: file systems
// allow 255.
const maxName = 200

// noName is the name of a file whose URL ends in a slash.
const noName = "index.html"

// fileName returns the name of the file for a URL: what follows the last slash of its
// path. It is always the name of a file right in the folder, and never a hidden one, a
// partial one or a device of Windows. Only the user's own URL decides: no redirect and
// no header does.
func fileName(u *url.URL) string {
	name := u.Path[strings.LastIndexByte(u.Path, '/')+1:]
	// An escaped slash ends up in Path as a plain one, so that what precedes it is not
	// part of the name.
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	if len(name) > maxName {
		ext := path.Ext(name)
		if len(ext) > 20 {
			ext = ""
		}
		name = strings.ToValidUTF8(name[:maxName-len(ext)], "") + ext
	}
	if strings.HasPrefix(name, ".") {
		name = "_" + name[1:]
	}
	if strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") || strings.HasSuffix(name, partSuffix) || strings.HasSuffix(name, infoSuffix) || isDevice(name) {
		name += "_"
	}
	if name == "" {
		return noName
	}
	return name
}

// isDevice reports whether Windows takes a name for a device's, such as "nul" or
// "com1.txt".
func isDevice(name string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	switch stem = strings.TrimRight(stem, " "); stem {
	case "con", "prn", "aux", "nul", "conin$", "conout$":
		return true
	}
	digit, ok := strings.CutPrefix(stem, "com")
	if !ok {
		digit, ok = strings.CutPrefix(stem, "lpt")
	}
	return ok && utf8.RuneCountInString(digit) == 1
}

// nth returns the names for a file, the first choice first.
func nth(name string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s.%d", name, i)
}
