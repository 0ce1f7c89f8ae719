package dirclient

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// Get asks for one document on a directory stream over a circuit of several hops, whose end
// the caller sees to. to is the directory's IPv4 address. The body may have limit bytes; it is
// empty unless the status is 200.
func Get(stream io.ReadWriter, to netip.AddrPort, path string, limit int64) (status int, body []byte, err error) {
	r := request{anonymous: Anonymous("GET", path, to), limit: limit}
	res, err := r.roundTrip(stream, func() {})
	if err != nil {
		return 0, nil, err
	}
	return res.status, res.body, nil
}

// Post gives a document to a directory over a stream, as Get asks for one, and returns the status of the answer.
func Post(stream io.ReadWriter, to netip.AddrPort, path string, doc []byte) (status int, err error) {
	head := Anonymous("POST", path, to, fmt.Sprint("Content-Length: ", len(doc)))
	r := request{anonymous: append(head, doc...), limit: maxHead}
	res, err := r.roundTrip(stream, func() {})
	if err != nil {
		return 0, err
	}
	return res.status, nil
}

// Anonymous returns the head of a request over a circuit of several hops. A directory cannot
// tell it from C tor's, which has these lines in this order, the address of the directory's
// ORPort by IPv4, and no encodings. headers are further ones.
func Anonymous(method, path string, to netip.AddrPort, headers ...string) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.0\r\n%s\r\n\r\n", method, path, strings.Join(append([]string{"Host: " + host(to)}, headers...), "\r\n"))
}

// host is what C tor writes after "Host:".
func host(to netip.AddrPort) string { return strings.TrimSuffix(to.String(), ":80") }
