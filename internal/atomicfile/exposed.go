package atomicfile

import (
	"os"
	"path/filepath"
	"runtime"
)

// Exposed returns the paths that users other than the owner can access: files of a
// folder that they may read or change, and the folder itself if they may create
// files in it. Missing files are ignored. On Windows, where modes do not control
// access, it returns nothing.
func Exposed(folder string, files ...string) (paths []string) {
	const reach, change, access = 0o077, 0o022, 0o066
	dir, err := os.Stat(folder)
	if err != nil || runtime.GOOS == "windows" || dir.Mode().Perm()&reach == 0 {
		return nil
	}
	if dir.Mode().Perm()&change != 0 {
		paths = append(paths, folder)
	}
	for _, f := range files {
		path := filepath.Join(folder, f)
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&access != 0 {
			paths = append(paths, path)
		}
	}
	return paths
}
