//go:build !unix

package tord

import "errors"

const canChangeUser = false

func changeUser(int, []int, bool) error { return errors.ErrUnsupported }
