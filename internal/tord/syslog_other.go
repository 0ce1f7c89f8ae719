//go:build !unix

package tord

import (
	"errors"
	"io"
)

func openSyslog() (io.WriteCloser, error) { return nil, errors.ErrUnsupported }
