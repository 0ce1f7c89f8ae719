package chive

import (
	"net/http"
	"time"
)

// HTTPClient returns an HTTP client whose connections are all streams of this
// client: the exit looks names up, and the HTTP client ignores the environment's
// proxies. It keeps its own idle connections, so use one HTTP client for a whole
// activity. A whole request has no time limit unless a context or the field
// Timeout sets one. Requests have Go's User-Agent unless they set another.
func (c *Client) HTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:       nil, // the environment must not decide where connections go
		DialContext: c.DialContext, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: time.Minute, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 1 << 20,
	}}
}
