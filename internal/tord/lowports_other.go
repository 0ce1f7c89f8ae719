//go:build !linux

package tord

import "errors"

const canKeepBinding = false

func keepBinding(func() error) error { return errors.ErrUnsupported }
