package fault

import (
	"errors"
	"syscall"
)

// Why returns what the system said in the chain of err, without the operation and the names that
// packages os and net put before it: for a message that has said them already. If the system said
// nothing, it returns err.
func Why(err error) error {
	if n, ok := errors.AsType[syscall.Errno](err); ok {
		return n
	}
	return err
}
