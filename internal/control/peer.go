package control

import (
	"errors"
	"net"
	"os"

	"github.com/chivenet/chive/internal/netaddr"
)

var (
	errStranger = errors.New("it comes from another user of this machine")
	errAfar     = errors.New("it comes from another machine")
)

// errUnknownUser says that the system does not tell who has connected.
var errUnknownUser = errors.New("the system does not tell which user it is")

// OwnUser lets in only this user and root, by a unix socket.
func OwnUser(c net.Conn) error {
	uid, err := userOf(c)
	if err == nil && uid != os.Geteuid() && uid != 0 {
		err = errStranger
	}
	return err
}

// Anybody lets in all who can connect: the mode of a socket's file, or a secret, says who may.
func Anybody(net.Conn) error { return nil }

// OwnUserWhereKnown lets in programs of this machine, and those of other users only where the system does not
// tell whose they are. It is for ports without authentication.
func OwnUserWhereKnown(c net.Conn) error {
	if ip := netaddr.Of(c.RemoteAddr()); ip.IsValid() && !ip.IsLoopback() {
		return errAfar
	}
	if err := OwnUser(c); !errors.Is(err, errUnknownUser) {
		return err
	}
	return nil
}
