package control

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/ctlwire"
)

// CookieSize is the size of the cookie, in bytes.
const CookieSize = 32

// Auth is how controllers show that they may control this program. With neither a cookie nor a password,
// everybody who can connect may.
type Auth struct {
	Cookie     []byte // CookieSize bytes; nil: none
	CookieFile string // the absolute path of the file with it
	Passwords  []Password
}

// None reports whether everybody who can connect is let in.
func (a *Auth) None() bool { return a.Cookie == nil && len(a.Passwords) == 0 }

// methods names the ways to authenticate, for PROTOCOLINFO.
func (a *Auth) methods() string {
	if a.None() {
		return "NULL"
	}
	var all []string
	if a.Cookie != nil {
		all = append(all, "COOKIE", "SAFECOOKIE")
	}
	if len(a.Passwords) > 0 {
		all = append(all, "HASHEDPASSWORD")
	}
	return strings.Join(all, ",")
}

// The two keys of SAFECOOKIE (control-spec, "AUTHCHALLENGE").
const (
	keyOfServer = "Tor safe cookie authentication server-to-controller hash"
	keyOfClient = "Tor safe cookie authentication controller-to-server hash"
)

func (one *session) protocolInfo(c ctlwire.Command) error {
	for _, v := range words(c) {
		if strings.Trim(v, "0123456789") != "" {
			one.last = !one.known.Load()
			return one.end(ctlwire.BadValue, "No such version "+ctlwire.Quote(v))
		}
	}
	a := one.secrets()
	methods := "AUTH METHODS=" + a.methods()
	if a.Cookie != nil {
		methods += " COOKIEFILE=" + ctlwire.Quote(a.CookieFile)
	}
	return one.lines(ctlwire.OK, []string{"PROTOCOLINFO 1", methods, "VERSION Tor=" + ctlwire.Quote(one.srv.cfg.Version), "OK"})
}

// stop writes a reply after which the connection of somebody unknown is closed.
func (one *session) stop(code int, text string) error {
	one.last = true
	return one.end(code, text)
}

// secrets are those by which the controllers of the session's port authenticate, at the moment.
func (one *session) secrets() Auth {
	if one.door.Secrets != nil {
		return one.door.Secrets()
	}
	return one.srv.cfg.Secrets()
}

func (one *session) authChallenge(c ctlwire.Command) error {
	kind, rest, _ := strings.Cut(c.Args, " ")
	if !strings.EqualFold(kind, "SAFECOOKIE") {
		return one.stop(ctlwire.BadValue, "AUTHCHALLENGE only supports SAFECOOKIE authentication")
	}
	a := one.secrets()
	if len(a.Cookie) != CookieSize {
		return one.stop(ctlwire.BadAuth, "Cookie authentication is disabled")
	}
	list, err := ctlwire.Keywords(rest, ctlwire.KeyOptional)
	if err != nil || len(list) != 1 || list[0].Key != "" {
		return one.stop(ctlwire.BadArgument, "Wrong number of arguments for AUTHCHALLENGE")
	}
	nonce := []byte(list[0].Value)
	if !list[0].Quoted {
		if nonce, err = hex.DecodeString(list[0].Value); err != nil {
			return one.stop(ctlwire.BadValue, "Invalid base16 client nonce")
		}
	}
	mine := make([]byte, 32)
	rand.Read(mine) // it never fails
	hash := func(key string) []byte {
		h := hmac.New(sha256.New, []byte(key))
		for _, part := range [][]byte{a.Cookie, nonce, mine} {
			h.Write(part)
		}
		return h.Sum(nil)
	}
	one.client = hash(keyOfClient)
	up := func(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) }
	return one.end(ctlwire.OK, "AUTHCHALLENGE SERVERHASH="+up(hash(keyOfServer))+" SERVERNONCE="+up(mine))
}

func (one *session) authenticate(c ctlwire.Command) error {
	list, err := ctlwire.Keywords(c.Args, ctlwire.KeyOptional)
	switch {
	case err != nil:
		return one.stop(ctlwire.BadArgument, "Bad arguments to AUTHENTICATE: Cannot parse keyword argument(s)")
	case len(list) > 1:
		return one.stop(ctlwire.BadArgument, "Too many arguments to AUTHENTICATE.")
	case len(list) == 1 && list[0].Key != "":
		return one.stop(ctlwire.BadArgument, "AUTHENTICATE does not accept keyword arguments.")
	}
	var secret []byte
	quoted := false
	if len(list) == 1 {
		if quoted = list[0].Quoted; quoted {
			secret = []byte(list[0].Value)
		} else if secret, err = hex.DecodeString(list[0].Value); err != nil {
			return one.stop(ctlwire.Failed, "Invalid hexadecimal encoding.  Maybe you tried a plain text password?  If so, the standard requires that you put it in double quotes.")
		}
	}
	if why := one.refuses(secret, quoted); why != "" {
		return one.stop(ctlwire.BadAuth, "Authentication failed: "+why)
	}
	one.client = nil
	one.known.Store(true)
	one.in.Limit(ctlwire.MaxCommand)
	if err := one.conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return one.ok()
}

// refuses says why a secret does not authenticate a controller; empty: it does. Controllers read these texts
// to learn what was wrong, so they are C tor's.
func (one *session) refuses(secret []byte, quoted bool) string {
	if one.client != nil { // it has chosen SAFECOOKIE, and nothing else counts
		switch {
		case len(secret) != len(one.client):
			return "Wrong length for safe cookie response."
		case subtle.ConstantTimeCompare(secret, one.client) != 1:
			return "Safe cookie response did not match expected value."
		}
		return ""
	}
	a := one.secrets()
	if a.None() {
		if err := one.door.Admit(one.conn); err != nil {
			one.srv.cfg.Log.Warn("a connection to the control port was refused", "err", err)
			return "Only programs of the same user may control this one."
		}
		return ""
	}
	if len(a.Cookie) == CookieSize && subtle.ConstantTimeCompare(secret, a.Cookie) == 1 {
		return ""
	}
	for _, p := range a.Passwords {
		if p.is(secret) {
			return ""
		}
	}
	switch {
	case a.Cookie != nil && len(a.Passwords) > 0:
		return "Password did not match HashedControlPassword *or* authentication cookie."
	case a.Cookie != nil && len(secret) != len(a.Cookie):
		return "Wrong length on authentication cookie."
	case a.Cookie != nil:
		return "Authentication cookie did not match expected value."
	case quoted:
		return "Password did not match HashedControlPassword value from configuration"
	}
	return "Password did not match HashedControlPassword value from configuration. Maybe you tried a plain text password? If so, the standard requires that you put it in double quotes."
}
