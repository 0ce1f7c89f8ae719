package atomicfile

import (
	"path/filepath"
	"strings"
	"sync"

	"github.com/chivenet/chive/internal/fault"
)

var passing = struct {
	mu      sync.Mutex     // guards what follows
	folders map[string]int // by their absolute names with a separator at the end: how many calls of Passing hold it
}{folders: map[string]int{}}

// Passing says that nobody needs the files below a folder after a crash of the machine, as in a network that ends with
// its process: Write does not wait for the disk there, until end is called. The disk needs milliseconds for each file,
// and a relay writes a dozen when it starts.
func Passing(folder string) (end func(), err error) {
	folder, err = filepath.Abs(folder)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	folder = strings.TrimSuffix(folder, string(filepath.Separator)) + string(filepath.Separator)
	passing.mu.Lock()
	defer passing.mu.Unlock()
	passing.folders[folder]++
	return sync.OnceFunc(func() {
		passing.mu.Lock()
		defer passing.mu.Unlock()
		if passing.folders[folder]--; passing.folders[folder] == 0 {
			delete(passing.folders, folder)
		}
	}), nil
}

// isPassing reports whether a file is below a folder of Passing, by the name under which it is written.
func isPassing(path string) bool {
	passing.mu.Lock()
	defer passing.mu.Unlock()
	if len(passing.folders) == 0 {
		return false
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if passing.folders[strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator)] > 0 {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}
