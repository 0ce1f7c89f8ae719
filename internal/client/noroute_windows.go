package client

import "golang.org/x/sys/windows"

// noRoutes are what the system says of an address of a family that it cannot reach.
var noRoutes = []error{windows.WSAENETUNREACH, windows.WSAEADDRNOTAVAIL, windows.WSAEAFNOSUPPORT}
