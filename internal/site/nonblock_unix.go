//go:build unix

package site

import "syscall"

// nonblock keeps open(2) from waiting for somebody who writes to a pipe.
const nonblock = syscall.O_NONBLOCK
