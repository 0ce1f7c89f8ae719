package client

// Protocols returns the subprotocol versions that a client speaks.
func Protocols() string { return protocols }
