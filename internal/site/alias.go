package site

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A file may have more names than the one in its directory, by which a client could ask for .git without its dot: FAT and
// NTFS give it a short name such as GIT~1, Windows takes "\" for "/" and ":" for the end of a name, and HFS+ does not see
// some characters.

// shortName matches names that FAT and NTFS may have made.
var shortName = regexp.MustCompile(`^[^.]{1,6}~[0-9]{1,6}(\..{0,3})?$`)

// doubtful reports whether a part of a name may be another name of a file.
func doubtful(part string) bool {
	return shortName.MatchString(part) || strings.ContainsFunc(part, func(r rune) bool {
		return unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r)
	})
}

// foreign reports whether a name has characters that split names on a system with this separator.
func foreign(name string, separator rune) bool {
	return separator == '\\' && strings.ContainsAny(name, `\:`)
}

// itsOwn reports whether every doubtful part of a name stands in its directory as it is.
func (f *folder) itsOwn(name string) bool {
	if foreign(name, os.PathSeparator) {
		return false
	}
	for at := name; at != "."; at = path.Dir(at) {
		if part := path.Base(at); doubtful(part) && !f.stands(path.Dir(at), part) {
			return false
		}
	}
	return true
}

// stands reports whether a name is among the first ones of a directory. It reads the directory only if there is such a file at all.
func (f *folder) stands(dir, part string) bool {
	if _, err := f.root.Lstat(path.Join(dir, part)); err != nil {
		return false
	}
	d, err := f.root.OpenFile(dir, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return false
	}
	defer d.Close()
	all, _ := d.Readdirnames(maxListed) // after an error, what was read counts
	return slices.Contains(all, part)
}
