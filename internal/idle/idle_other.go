//go:build !linux

package idle

import (
	"net"
	"syscall"
)

const available = false

// alone is the file descriptor of a socket that net does not know. Here net knows all.
type alone int8

const none alone = -1

func fromNet(syscall.RawConn) (alone, error) { return none, errNone }

func (alone) toNet() (net.Conn, error) { return nil, errNone }

func (alone) closeWrite() error { return errNone }

func (alone) noLinger() {}

func (alone) close() {}

// all would have the connections that rest. Here goroutines wait for them.
var all poller

type poller struct{}

func (poller) arm(*Conn) error { return errNone }

func (poller) remove(*Conn) {}

func (poller) forget(*Conn) {}

func (poller) wake(*Conn) {}

func (poller) retire(*Conn, uint16) {}
