package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// GetOptions are the settings of a download.
type GetOptions struct {
	URL     string
	Headers []string // "Name: value"
	Out     string   // a file; empty: Stdout
	Stdout  io.Writer
	// Dial opens every connection: Get uses no other way to connect or to look a
	// name up.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Get downloads one URL. A status other than success is an error. A file appears
// under its name only when it is complete.
func Get(ctx context.Context, o GetOptions) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL, nil)
	if err != nil {
		return fault.New(fault.Config, "get: %w", err)
	}
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.Host == "" {
		return fault.New(fault.Config, "get: the URL must begin with http:// or https:// and a host")
	}
	req.Header.Set("User-Agent", "") // Go's own would tell what program asks
	for _, h := range o.Headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || name == "" {
			return fault.New(fault.Config, "get: header %q is not NAME: VALUE", h)
		}
		value = strings.TrimSpace(value)
		if strings.EqualFold(name, "Host") {
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	transport := &http.Transport{
		Proxy:       nil, // never the proxy of the environment
		DialContext: o.Dial, ForceAttemptHTTP2: true, TLSHandshakeTimeout: time.Minute,
		ResponseHeaderTimeout: 2 * time.Minute, MaxResponseHeaderBytes: 1 << 20,
	}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fault.New(fault.Network, "get: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fault.New(fault.Network, "get: the server answered %s", resp.Status)
	}
	return save(o, resp.Body)
}

// save copies the body to the file or to Stdout.
func save(o GetOptions, body io.Reader) error {
	if o.Out == "" {
		if _, err := io.Copy(o.Stdout, body); err != nil {
			return fault.New(fault.Network, "get: %w", err)
		}
		return nil
	}
	err := atomicfile.Fill(o.Out, atomicfile.Secret, func(f io.Writer) error {
		_, err := io.Copy(f, body)
		return fault.Wrap(fault.Network, err)
	})
	if err != nil {
		return fault.New(fault.KindOf(err), "get: %w", err)
	}
	return nil
}
