package fte

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

// HideAddr returns err's text for a log, without the addresses, names and URLs
// that the standard library adds to errors of connections.
func HideAddr(err error) string {
	s := err.Error()
	if e, ok := errors.AsType[*url.Error](err); ok {
		return strings.Replace(s, e.Error(), HideAddr(e.Err), 1)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return strings.Replace(s, e.Error(), e.Op+": "+HideAddr(e.Err), 1)
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return strings.Replace(s, e.Error(), e.Err, 1)
	}
	if e, ok := errors.AsType[*net.AddrError](err); ok {
		return strings.Replace(s, e.Error(), e.Err, 1)
	}
	return s
}
