package fetch

import (
	"net/http"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// version says what the bytes of a partial download are bytes of.
type version struct {
	URL          string `json:"url"`
	ETag         string `json:"etag,omitempty"`          // a strong one
	LastModified string `json:"last_modified,omitempty"` // if it counts as strong
	Total        int64  `json:"total"`                   // bytes; -1: unknown
}

// versionOf reads an answer's validators, except weak ones: documents that differ
// somewhat may share these (RFC 9110, section 8.8).
func versionOf(resp *http.Response, url string) version {
	v := version{URL: url, Total: -1}
	if tag := resp.Header.Get("ETag"); strings.HasPrefix(tag, `"`) && len(tag) < 1000 {
		v.ETag = tag
	}
	changed, err := http.ParseTime(resp.Header.Get("Last-Modified"))
	sent, err2 := http.ParseTime(resp.Header.Get("Date"))
	if err == nil && err2 == nil && sent.Sub(changed) >= time.Second {
		v.LastModified = resp.Header.Get("Last-Modified")
	}
	return v
}

// validator returns the value for If-Range; empty: no part can be checked.
func (v version) validator() string {
	if v.ETag != "" {
		return v.ETag
	}
	return v.LastModified
}

// same reports whether an answer does not contradict that it is of this version.
func (v version) same(of version) bool {
	if v.ETag != "" && of.ETag != "" {
		return v.ETag == of.ETag
	}
	return v.LastModified == "" || of.LastModified == "" || v.LastModified == of.LastModified
}

// continues checks that an answer with a part goes on with this version after have bytes. It
// returns the length of the part, which may end before the document does (RFC 9110, section
// 15.3.7), and of the whole; -1: the server does not say.
func (v version) continues(resp *http.Response, have int64) (part, total int64, err error) {
	first, end, total, ok := contentRange(resp)
	switch {
	case !ok || first != have:
		return 0, 0, fault.New(fault.Protocol, "the server sent another part (%.100q) than the one after %d bytes", resp.Header.Get("Content-Range"), have)
	case total >= 0 && v.Total >= 0 && total != v.Total:
		return 0, 0, fault.New(fault.Protocol, "the document has %d bytes now, and had %d: begin again, without the partial file", total, v.Total)
	case total < 0 && v.Total >= 0 && end > v.Total:
		return 0, 0, fault.New(fault.Protocol, "the document had %d bytes, and the server sent a part (%.100q) that ends after them: begin again, without the partial file", v.Total, resp.Header.Get("Content-Range"))
	case !versionOf(resp, "").same(v):
		return 0, 0, fault.New(fault.Protocol, "the server sent a part of another version of the document: begin again, without the partial file")
	}
	if total < 0 {
		total = v.Total
	}
	return end - first, total, nil
}
