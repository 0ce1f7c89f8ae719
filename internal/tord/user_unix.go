//go:build unix

package tord

import (
	"errors"
	"syscall"
)

const canChangeUser = true

// changeUser gives up what root may, but for opening ports below 1024 if low says so. Package syscall does it in all threads.
func changeUser(uid int, groups []int, low bool) error {
	change := func() error {
		if err := syscall.Setgroups(groups); err != nil {
			return err
		}
		if err := syscall.Setgid(groups[0]); err != nil {
			return err
		}
		return syscall.Setuid(uid)
	}
	err := error(nil)
	if low {
		err = keepBinding(change)
	} else {
		err = change()
	}
	if err != nil {
		return err
	}
	if uid != 0 && syscall.Setuid(0) == nil {
		return errors.New("it could become root again")
	}
	return nil
}
