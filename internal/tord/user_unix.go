//go:build unix

package tord

import (
	"errors"
	"syscall"
)

const canChangeUser = true

// changeUser gives up what root may. Package syscall does it in all threads.
func changeUser(uid int, groups []int) error {
	if err := syscall.Setgroups(groups); err != nil {
		return err
	}
	if err := syscall.Setgid(groups[0]); err != nil {
		return err
	}
	if err := syscall.Setuid(uid); err != nil {
		return err
	}
	if uid != 0 && syscall.Setuid(0) == nil {
		return errors.New("it could become root again")
	}
	return nil
}
