package reads

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/chivenet/chive/devp2p"
)

// An Address says where an upstream is.
type Address struct {
	socket string   // the path of a Unix socket, or empty
	url    *url.URL // nil with a socket
}

// ParseAddress reads the address of an upstream: an https URL, an http or https URL of an onion, or
// the path of the IPC socket of a node on this machine. Plain HTTP to any other host is refused: the
// exit could read and change everything. The error does not repeat what may be a key in the URL.
func ParseAddress(text string) (*Address, error) {
	if !strings.Contains(text, "://") {
		if !filepath.IsAbs(text) {
			return nil, errors.New("it is neither a URL, such as https://node.example/, nor the whole path of an IPC socket, such as /home/me/.ethereum/geth.ipc")
		}
		return &Address{socket: text}, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL cannot be read")
	}
	switch {
	case u.Hostname() == "":
		return nil, errors.New("the URL has no host")
	case u.Fragment != "":
		return nil, errors.New("the URL has a part after #, which no server gets")
	}
	if u.Port() != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
			return nil, errors.New("the port of the URL is not from 1 to 65535")
		}
	}
	onion := strings.HasSuffix(strings.ToLower(u.Hostname()), ".onion")
	if onion {
		host := u.Hostname()
		if i := strings.LastIndexByte(strings.TrimSuffix(strings.ToLower(host), ".onion"), '.'); i >= 0 {
			host = host[i+1:]
		}
		if _, err := devp2p.ParseOnion3(strings.ToLower(host)); err != nil {
			return nil, fmt.Errorf("the onion of the URL: %w", err)
		}
	}
	switch {
	case u.Scheme == "https", u.Scheme == "http" && onion:
		return &Address{url: u}, nil
	case u.Scheme == "http":
		return nil, errors.New("plain http is for onions only: the exit would read and change everything; give https, an onion, or an IPC socket")
	}
	return nil, errors.New("the URL is neither of https nor of http")
}

// Local reports whether the upstream is on this machine.
func (a *Address) Local() bool { return a.socket != "" }

// String names the upstream without what may be a key: the path and the user of a URL.
func (a *Address) String() string {
	if a.Local() {
		return "the IPC socket"
	}
	return a.url.Hostname()
}

// hostPort is where a connection goes to.
func (a *Address) hostPort() string {
	port := a.url.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[a.url.Scheme]
	}
	return net.JoinHostPort(a.url.Hostname(), port)
}
