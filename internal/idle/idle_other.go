//go:build !linux

package idle

import "syscall"

// Socket is a socket that may be waited for.
type Socket struct{}

// Watch prepares to wait for a socket. Here it returns an error.
func Watch(syscall.RawConn, Waker) (*Socket, error) { return nil, errNone }

// Wait returns at once, with an error.
func (*Socket) Wait() error { return errNone }

// Forget ends the wait.
func (*Socket) Forget() {}
