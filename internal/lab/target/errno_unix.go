//go:build unix

package target

import "syscall"

const errInUse = syscall.EADDRINUSE
