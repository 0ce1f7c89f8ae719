package torctl

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chivenet/chive/program"
)

// Auth is how to authenticate. The zero Auth takes what the daemon offers: nothing, or
// its cookie.
type Auth struct {
	Password string // of HashedControlPassword
	// CookieFile is the daemon's cookie; empty: the file that the daemon names.
	CookieFile string
}

// The keys of SAFECOOKIE (control-spec, AUTHCHALLENGE).
const (
	serverKey = "Tor safe cookie authentication server-to-controller hash"
	clientKey = "Tor safe cookie authentication controller-to-server hash"
	cookieLen = 32
)

// authenticate proves to the daemon that this program may control it. A password counts
// first. The cookie is proved and not sent (SAFECOOKIE), because the daemon chooses which
// file is read; it is sent (COOKIE) only if the user names the file.
func (c *Conn) authenticate(ctx context.Context, auth Auth) error {
	lines, err := c.Command(ctx, "PROTOCOLINFO 1")
	if err != nil {
		return err
	}
	methods, file := parseProtocolInfo(lines)
	if auth.CookieFile != "" {
		file = auth.CookieFile
	}
	offers := func(m string) bool { return slices.Contains(methods, m) }
	switch {
	case auth.Password != "" && offers("HASHEDPASSWORD"):
		_, err = c.Command(ctx, "AUTHENTICATE "+quote(auth.Password))
	case auth.Password != "":
		return errors.New("control port: it takes no password")
	case offers("NULL"):
		_, err = c.Command(ctx, "AUTHENTICATE")
	case offers("SAFECOOKIE") && file != "":
		err = c.safeCookie(ctx, file)
	case offers("COOKIE") && auth.CookieFile != "":
		cookie, rerr := readCookie(file)
		if rerr != nil {
			return rerr
		}
		_, err = c.Command(ctx, "AUTHENTICATE "+hex.EncodeToString(cookie))
	case offers("HASHEDPASSWORD"):
		return errors.New("control port: it wants a password")
	default:
		return fmt.Errorf("control port: none of its ways to authenticate is known (%s)", strings.Join(methods, ", "))
	}
	return err
}

func readCookie(file string) ([]byte, error) {
	cookie, err := program.ReadRegular(file, cookieLen)
	if err != nil {
		return nil, fmt.Errorf("control port: its cookie: %w", err)
	}
	if len(cookie) != cookieLen {
		return nil, fmt.Errorf("control port: its cookie has %d bytes, not %d", len(cookie), cookieLen)
	}
	return cookie, nil
}

// safeCookie proves that this program can read the cookie, after the daemon has proved
// that it knows it.
func (c *Conn) safeCookie(ctx context.Context, file string) error {
	cookie, err := readCookie(file)
	if err != nil {
		return err
	}
	mine := make([]byte, 32)
	rand.Read(mine)
	lines, err := c.Command(ctx, "AUTHCHALLENGE SAFECOOKIE "+hex.EncodeToString(mine))
	if err != nil {
		return err
	}
	hash, theirs, err := parseChallenge(lines)
	if err != nil {
		return err
	}
	proof := func(key string) []byte {
		h := hmac.New(sha256.New, []byte(key))
		h.Write(cookie)
		h.Write(mine)
		h.Write(theirs)
		return h.Sum(nil)
	}
	if !hmac.Equal(hash, proof(serverKey)) {
		return errors.New("control port: the daemon does not know its own cookie: another program may listen there")
	}
	_, err = c.Command(ctx, "AUTHENTICATE "+hex.EncodeToString(proof(clientKey)))
	return err
}

// parseChallenge reads "AUTHCHALLENGE SERVERHASH=HEX SERVERNONCE=HEX".
func parseChallenge(lines []string) (hash, nonce []byte, err error) {
	for _, line := range lines {
		for _, f := range strings.Fields(line) {
			k, v, _ := strings.Cut(f, "=")
			b, herr := hex.DecodeString(v)
			if herr != nil || len(b) != sha256.Size {
				continue
			}
			switch k {
			case "SERVERHASH":
				hash = b
			case "SERVERNONCE":
				nonce = b
			}
		}
	}
	if hash == nil || nonce == nil {
		return nil, nil, errors.New("control port: a challenge without SERVERHASH and SERVERNONCE")
	}
	return hash, nonce, nil
}

// parseProtocolInfo reads the line AUTH: the methods, and the cookie's file.
func parseProtocolInfo(lines []string) (methods []string, file string) {
	for _, line := range lines {
		rest, ok := strings.CutPrefix(line, "AUTH ")
		if !ok {
			continue
		}
		if i := strings.Index(rest, `COOKIEFILE="`); i >= 0 {
			file = unquote(rest[i+len("COOKIEFILE="):])
			rest = rest[:i]
		}
		for _, f := range strings.Fields(rest) {
			if list, ok := strings.CutPrefix(f, "METHODS="); ok {
				methods = strings.Split(list, ",")
			}
		}
	}
	return methods, file
}

// quote returns a QuotedString.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch ch := s[i]; {
		case ch == '"' || ch == '\\':
			b.WriteByte('\\')
			b.WriteByte(ch)
		case ch < ' ' || ch > '~':
			fmt.Fprintf(&b, "\\%03o", ch)
		default:
			b.WriteByte(ch)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// unquote reads the QuotedString at the start of s, with C's escapes.
func unquote(s string) string {
	var b strings.Builder
	for i := 1; i < len(s) && s[i] != '"'; i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if octal := s[i:min(i+3, len(s))]; len(octal) == 3 && strings.Trim(octal, "01234567") == "" {
			b.WriteByte((octal[0]-'0')<<6 | (octal[1]-'0')<<3 | (octal[2] - '0'))
			i += 2
			continue
		}
		switch s[i] {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
