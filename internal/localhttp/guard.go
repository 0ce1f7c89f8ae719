// Package localhttp serves HTTP to programs of this machine, and to those that the
// operator has let in: it has the one guard of all local ports that speak HTTP.
//
// Loopback is no fence. A web page can send requests to a port of the machine that
// shows it. If the page's own name is made to point there (DNS rebinding), it can also
// read the answers. The browser then names the page's host in the header Host, and where
// a request of another page comes from in Origin and Sec-Fetch-Site. So the guard knows
// them all.
package localhttp

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
)

// Guard says which requests a port answers. The zero Guard lets a request pass whose Host
// is localhost or any IP address: a page whose host is an address came from that address,
// and nobody can make it point elsewhere.
type Guard struct {
	Names    []string // host names that pass too
	Loopback bool     // only addresses of loopback pass, and localhost
	NoPages  bool     // no request of a web page passes, not even of one that came from this port
	// Extensions are origins of browser extensions that pass nevertheless, such as
	// "chrome-extension://ID". A web page cannot have such an origin: the browser writes the header.
	Extensions []string
}

// CheckName reports whether s is a host name for Names.
func CheckName(s string) error {
	if _, err := netip.ParseAddr(s); err == nil {
		return fault.New(fault.Config, "host name %q: addresses pass without being named", s)
	}
	if !netaddr.HostName(s) {
		return fault.New(fault.Config, "host name %q: it is no host name, or has a port", s)
	}
	return nil
}

// extensions are the schemes of browser extensions' origins.
var extensions = []string{"chrome-extension", "moz-extension", "safari-web-extension"}

// CheckExtension reports whether s is an origin for Extensions: a scheme of extensions and the ID of
// one. A web page's origin is none, and neither is one that stands for several.
func CheckExtension(s string) error {
	scheme, id, ok := strings.Cut(s, "://")
	if !ok || !slices.Contains(extensions, scheme) {
		return fault.New(fault.Config, "origin %q: it is not of a browser extension, such as chrome-extension://ID or moz-extension://ID", s)
	}
	for _, c := range id {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			id = ""
		}
	}
	if id == "" {
		return fault.New(fault.Config, "origin %q: after :// stands the extension's ID, of letters and digits, and nothing else", s)
	}
	return nil
}

// Refuse returns the status of the answer to a request that must not pass, and the reason;
// an empty reason: it may pass.
func (g *Guard) Refuse(r *http.Request) (status int, why string) {
	if !g.host(r.Host) {
		return http.StatusForbidden, "this Host is not known here: ask by an IP address, or have the operator list the name"
	}
	origins, sites := r.Header["Origin"], r.Header["Sec-Fetch-Site"]
	if len(origins) == 1 && slices.Contains(g.Extensions, origins[0]) {
		return 0, ""
	}
	if g.NoPages && len(origins)+len(sites) > 0 {
		return http.StatusForbidden, "web pages have no access"
	}
	foreign := func(o string) bool { return !strings.EqualFold(o, "http://"+r.Host) }
	// none: the user entered the address.
	other := func(s string) bool { return s != "none" && s != "same-origin" }
	if slices.ContainsFunc(origins, foreign) || slices.ContainsFunc(sites, other) {
		return http.StatusForbidden, "other web pages have no access"
	}
	return 0, ""
}

// host reports whether a Host passes.
func (g *Guard) host(h string) bool {
	if name, _, err := net.SplitHostPort(h); err == nil {
		h = name
	} else if n := len(h); n > 2 && h[0] == '[' && h[n-1] == ']' {
		h = h[1 : n-1]
	}
	if a, err := netip.ParseAddr(h); err == nil {
		return !g.Loopback || a.Unmap().IsLoopback()
	}
	same := func(name string) bool { return strings.EqualFold(h, name) }
	return same("localhost") || slices.ContainsFunc(g.Names, same)
}
