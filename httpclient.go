package chive

import (
	"net/http"
	"time"
)

// HTTPClient returns an HTTP client whose every connection is a stream of this
// client: names are looked up by the exit, and the environment's proxies are
// ignored. Its connections are its own, so keep it for as long as one activity
// lasts. It has no time limit for a whole request: a context or its Timeout sets one.
// It sends Go's own User-Agent unless the request has another.
func (c *Client) HTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:       nil, // the environment must not decide where connections go
		DialContext: c.DialContext, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: time.Minute, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 1 << 20,
	}}
}
