package dirclient

import "io"

// Get asks for one document on a directory stream, whose end the caller sees to.
// The body, decoded, may have limit bytes; it is empty unless the status is 200.
func Get(stream io.ReadWriter, path string, limit int64) (status int, body []byte, err error) {
	r := request{path: path, limit: limit}
	res, err := r.roundTrip(stream, func() {})
	if err != nil {
		return 0, nil, err
	}
	return res.status, res.body, nil
}
