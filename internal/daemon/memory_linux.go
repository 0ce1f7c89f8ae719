package daemon

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/chivenet/chive/internal/fault"
)

// program has the mappings of the program's file that hold code and constants, and that
// nothing has written to.
type program [][2]uintptr

// findProgram reads the mappings of this process. The sandbox forbids that later.
func findProgram() (program, error) {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	defer f.Close()
	var found program
	var at [2]uintptr
	mine := false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		l := lines.Text()
		if m, ok := mapping(l, self); ok {
			at, mine = m, m[1] > 0
			continue
		}
		if kind, size, _ := strings.Cut(l, ":"); mine && kind == "Anonymous" && strings.TrimSpace(size) == "0 kB" {
			found = append(found, at)
		}
	}
	return found, fault.Wrap(fault.Local, lines.Err())
}

// mapping reads the first line about a mapping; other lines are not ok. It is zero if the
// mapping is not of the program's file, or may be written to.
func mapping(line, program string) (at [2]uintptr, ok bool) {
	f := strings.Fields(line) // range, permissions, offset, device, inode, path
	if len(f) < 5 || len(f[1]) != 4 {
		return at, false
	}
	low, high, ok := strings.Cut(f[0], "-")
	from, err := strconv.ParseUint(low, 16, strconv.IntSize)
	to, err2 := strconv.ParseUint(high, 16, strconv.IntSize)
	if !ok || err != nil || err2 != nil {
		return at, false
	}
	if len(f) == 6 && f[5] == program && strings.HasPrefix(f[1], "r-") {
		at = [2]uintptr{uintptr(from), uintptr(to)}
	}
	return at, true
}

// unmap takes the program's pages off the process. The kernel keeps them in its cache,
// and maps those again that are used. Most of them only the start has used.
func (p program) unmap() error {
	for _, m := range p {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m[0], m[1]-m[0], syscall.MADV_DONTNEED); errno != 0 {
			return fault.New(fault.Local, "madvise: %w", errno)
		}
	}
	return nil
}
