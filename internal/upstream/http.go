package upstream

import (
	"bytes"
	"encoding/base64"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// maxHead bounds the head of an HTTP proxy's answer, in bytes.
const maxHead = 8 << 10

func checkHTTP(user, password string) error {
	switch {
	case user == "" || len(user)+len(password) > 1024:
		return fault.New(fault.Config, "the user name is empty, or it and the password are too long")
	case strings.Contains(user, ":"):
		return fault.New(fault.Config, "the user name has a colon, which HTTP does not allow")
	}
	return nil
}

// connect asks an HTTP proxy for a tunnel.
func connect(c net.Conn, p *Proxy, host string, port uint16) error {
	if strings.ContainsAny(host, " \r\n\t\x00") {
		return fault.New(fault.Config, "the host has a space or a control character")
	}
	to := net.JoinHostPort(host, strconv.Itoa(int(port)))
	req := "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n"
	if p.auth {
		req += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(p.user+":"+p.password)) + "\r\n"
	}
	if _, err := io.WriteString(c, req+"\r\n"); err != nil {
		return fault.New(fault.Network, "it does not listen: %w", plain(err))
	}
	status, err := readHead(c)
	if err != nil {
		return err
	}
	version, rest, _ := strings.Cut(status, " ")
	code, err := strconv.Atoi(rest[:min(3, len(rest))])
	switch {
	case !strings.HasPrefix(version, "HTTP/1.") || err != nil || len(rest) > 3 && rest[3] != ' ':
		return fault.New(fault.Protocol, "its answer is not HTTP/1")
	case code >= 200 && code < 300:
		return nil
	case code == 407 && p.auth:
		return fault.New(fault.Config, "it refuses the user name or the password (answer 407)")
	case code == 407:
		return fault.New(fault.Config, "it wants a user name and a password (answer 407)")
	}
	// The rest of the line is a stranger's text, which may name the target.
	return fault.New(fault.Network, "it cannot connect (answer %d)", code)
}

// readHead reads the head of an answer, and returns its first line. It reads one byte at
// a time, because the bytes after the head belong to the tunnel.
func readHead(r io.Reader) (status string, err error) {
	var head []byte
	var b [1]byte
	for len(head) < maxHead {
		if err := readFull(r, b[:]); err != nil {
			return "", err
		}
		if head = append(head, b[0]); b[0] != '\n' {
			continue
		}
		if bytes.HasSuffix(head, []byte("\n\r\n")) || bytes.HasSuffix(head, []byte("\n\n")) {
			line, _, _ := bytes.Cut(head, []byte("\n"))
			return strings.TrimRight(string(line), "\r"), nil
		}
	}
	return "", fault.New(fault.Protocol, "its answer has no end within %d bytes", maxHead)
}
