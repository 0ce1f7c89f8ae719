//go:build !unix

package nonblock

import "github.com/chivenet/chive/internal/fault"

// Available says whether this system supports calls that never wait.
const Available = false

var errNone = fault.New(fault.Local, "this system has no socket calls that never wait")

func read(uintptr, []byte) (int, error)  { return 0, errNone }
func write(uintptr, []byte) (int, error) { return 0, errNone }
