//go:build !unix

package nonblock

import "github.com/chivenet/chive/internal/fault"

// Available says whether sockets can be used this way here.
const Available = false

var errNone = fault.New(fault.Local, "sockets cannot be tried on this system")

func read(uintptr, []byte) (int, error)  { return 0, errNone }
func write(uintptr, []byte) (int, error) { return 0, errNone }
