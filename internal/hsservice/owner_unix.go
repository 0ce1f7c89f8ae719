//go:build unix

package hsservice

import (
	"os"
	"syscall"

	"github.com/chivenet/chive/internal/fault"
)

// giveTo gives a file or folder that root has just made below dir to the owner of dir, who is to read it. Whoever owns dir could put
// something else in its place, such as a hard link to a file of root's: then nothing is given away.
func giveTo(dir, path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	st, err := os.Stat(dir)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	owner := st.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 && owner.Gid == 0 {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	defer f.Close()
	if st, err = f.Stat(); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	if now := st.Sys().(*syscall.Stat_t); now.Uid != 0 || !st.IsDir() && (now.Nlink != 1 || !st.Mode().IsRegular()) {
		return fault.New(fault.Local, "%s is no longer the file that was written", path)
	}
	return fault.Wrap(fault.Local, f.Chown(int(owner.Uid), int(owner.Gid)))
}
