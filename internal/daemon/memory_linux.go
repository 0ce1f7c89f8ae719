package daemon

import (
	"bufio"
	"fmt"
	"os"
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
		var from, to uintptr
		var perms, offset, device, inode, path string
		if n, _ := fmt.Sscanf(l, "%x-%x %s %s %s %s %s", &from, &to, &perms, &offset, &device, &inode, &path); n >= 6 {
			at, mine = [2]uintptr{from, to}, strings.HasPrefix(perms, "r") && perms[1] == '-' && path == self
			continue
		}
		if kind, size, _ := strings.Cut(l, ":"); mine && kind == "Anonymous" && strings.TrimSpace(size) == "0 kB" {
			found = append(found, at)
		}
	}
	return found, fault.Wrap(fault.Local, lines.Err())
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
