package ptspec

import (
	"crypto/hmac"
	"crypto/sha256"
	"io"
)

// The Extended ORPort (ext-orport-spec.txt): its cookie file, the labels of ExtHash, and its commands.
const (
	CookieHeader = "! Extended ORPort Auth Cookie !\x0a"
	CookieLen    = 32

	ExtServerHash = "ExtORPort authentication server-to-client hash"
	ExtClientHash = "ExtORPort authentication client-to-server hash"

	ExtDone      = 0x0000
	ExtUserAddr  = 0x0001
	ExtTransport = 0x0002
	ExtOkay      = 0x1000
	ExtDeny      = 0x1001
)

// ExtHash is the proof that one side of an Extended ORPort knows the cookie (ext-orport-spec
// 3.1); the label says which side.
func ExtHash(cookie []byte, label string, cn, sn []byte) []byte {
	m := hmac.New(sha256.New, cookie)
	io.WriteString(m, label)
	m.Write(cn)
	m.Write(sn)
	return m.Sum(nil)
}
