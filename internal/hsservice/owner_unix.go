//go:build unix

package hsservice

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/chivenet/chive/internal/fault"
)

// foreign is the directory of a service that belongs to another user than root, who works in it. The owner can put links in
// the place of everything there, at any moment: nothing outside of the directory is reached through them.
type foreign struct {
	*os.Root
	uid, gid int
}

// openForeign opens a service's directory if root is to write there for another user; nil: this process may write as it
// always does.
func openForeign(dir string) (*foreign, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	st, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, fault.Wrap(fault.Local, err)
	}
	owner := st.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 && owner.Gid == 0 {
		return nil, root.Close()
	}
	return &foreign{root, int(owner.Uid), int(owner.Gid)}, nil
}

// put writes a file of the folder of authorized clients, and gives it to the owner, who is to read it.
func (d *foreign) put(name, text string) error {
	folder := filepath.Dir(name)
	if err := d.Mkdir(folder, 0o700); err == nil {
		if err := d.give(folder); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Local, "client authorization: %w", err)
	}
	unfinished := filepath.Join(folder, "."+rand.Text()+".tmp")
	err := d.fill(unfinished, text)
	if err == nil {
		err = d.Rename(unfinished, name)
	}
	if err != nil {
		_ = d.Remove(unfinished) // it may not be there
	}
	return fault.Wrap(fault.Local, err)
}

func (d *foreign) fill(name, text string) error {
	f, err := d.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Chown(d.uid, d.gid)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// give gives the owner a folder that root has just made.
func (d *foreign) give(folder string) error {
	f, err := d.OpenFile(folder, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	if st.Sys().(*syscall.Stat_t).Uid != 0 {
		return fault.New(fault.Local, "%s is no longer the folder that was made", folder)
	}
	return fault.Wrap(fault.Local, f.Chown(d.uid, d.gid))
}
