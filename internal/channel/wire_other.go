//go:build !unix

package channel

import "net"

// wire would write without waiting; elsewhere than on Unix the writer's
// goroutine does all writing.
type wire struct{ net.Conn }

func newWire(net.Conn) *wire { return nil }

func (w *wire) setDirect(func()) {}
func (w *wire) waits() bool      { return false }
func (w *wire) drain() error     { return nil }
