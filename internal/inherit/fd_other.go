//go:build !unix

package inherit

import (
	"errors"
	"syscall"

	"github.com/chivenet/chive/internal/fault"
)

func (h *handed) take(int) error {
	return fault.New(fault.Config, "%s cannot be taken over on this system", h.name)
}

func duplicate(syscall.Conn) (fd int, open bool, err error) { return 0, false, errors.ErrUnsupported }

func closeFD(int) {}

func (k *Kept) exec(string, []string, []string) error { return errors.ErrUnsupported }
