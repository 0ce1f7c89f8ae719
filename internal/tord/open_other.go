//go:build !unix

package tord

import "os"

const openNonblock = 0

// runs reports whether a process is there.
func runs(pid int) bool {
	p, err := os.FindProcess(pid)
	if err == nil {
		p.Release()
	}
	return err == nil
}
