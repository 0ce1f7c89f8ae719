package control

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

// ofTor is what "tor --hash-password 'p w'" of C tor 0.4.9.11 printed.
const ofTor = "16:DD3E6A602C7E0BB8607B5E3D7EF0E9B9273AD6D0A234BB47FDCE7BD7DE"

func passwords(t *testing.T) []Password {
	t.Helper()
	p, err := ParsePassword(ofTor)
	if err != nil {
		t.Fatal(err)
	}
	return []Password{p}
}

func TestPassword(t *testing.T) {
	p := passwords(t)[0]
	if !p.is([]byte("p w")) || p.is([]byte("p")) || p.is(nil) || p.String() != ofTor {
		t.Error(p)
	}
	for _, secret := range []string{"", "x", strings.Repeat("long", 20_000)} { // longer than what is hashed
		if q := HashPassword(secret); !q.is([]byte(secret)) || q.is([]byte(secret+"x")) || q == HashPassword(secret) {
			t.Error(secret)
		}
	}
	for _, bad := range []string{"", "16:", "16:00", ofTor[3:], ofTor + "00", "17" + ofTor[2:], strings.Replace(ofTor, ofTor[10:11], "X", 1)} {
		if _, err := ParsePassword(bad); err == nil {
			t.Error(bad)
		}
	}
}

// TestAuthenticate: who is let in, and what the others are told, in the words that programs look for.
func TestAuthenticate(t *testing.T) {
	right := hex.EncodeToString(cookie)
	wrong := strings.Repeat("00", CookieSize)
	withCookie := Auth{Cookie: cookie, CookieFile: "/a \"b"}
	withPassword := Auth{Passwords: passwords(t)}
	both := Auth{Cookie: cookie, Passwords: passwords(t)}
	for _, c := range []struct {
		auth      Auth
		say, want string // without "515 Authentication failed: "; empty: it is let in
	}{
		{Auth{}, "", ""}, {Auth{}, "00", ""}, {Auth{}, `"any"`, ""},
		{withCookie, right, ""}, {withCookie, strings.ToUpper(right), ""},
		{withCookie, `"0123456789abcdef0123456789abcdef"`, ""},
		{withCookie, wrong, "Authentication cookie did not match expected value."},
		{withCookie, "", "Wrong length on authentication cookie."},
		{withCookie, right[2:], "Wrong length on authentication cookie."},
		{withPassword, `"p w"`, ""}, {withPassword, hex.EncodeToString([]byte("p w")), ""},
		{withPassword, `"p"`, "Password did not match HashedControlPassword value from configuration"},
		{withPassword, "", "Password did not match HashedControlPassword value from configuration. Maybe you tried a plain text password? If so, the standard requires that you put it in double quotes."},
		{both, right, ""}, {both, `"p w"`, ""},
		{both, wrong, "Password did not match HashedControlPassword *or* authentication cookie."},
	} {
		one := newRig(t, c.auth).dial()
		one.send("AUTHENTICATE " + c.say + "\r\n")
		if c.want == "" {
			one.want("250 OK\r\n")
			one.send("GETINFO version\r\n")
			one.want("250-version=1.2.3.4\r\n250 OK\r\n")
		} else {
			one.wantEnd("515 Authentication failed: " + c.want + "\r\n")
		}
	}
}

// TestStrangers: what a controller may say before it is authenticated, and that all else ends its connection.
func TestStrangers(t *testing.T) {
	for _, c := range []struct{ say, want string }{
		{"GETINFO version\r\n", "514 Authentication required."},
		{"SIGNAL HALT\r\nAUTHENTICATE\r\n", "514 Authentication required."},
		{"\x00\x01\x02\r\n", "514 Authentication required."},
		{"\r\n", "514 Authentication required."},
		{"BLARG\r\n", "514 Authentication required."},
		{"PROTOCOLINFO 2\r\nPROTOCOLINFO\r\n", "250-PROTOCOLINFO 1|250-AUTH METHODS=COOKIE,SAFECOOKIE COOKIEFILE=\"/a\"|250-VERSION Tor=\"0.4.9.11-test\"|250 OK|514 Authentication required."},
		{"PROTOCOLINFO x\r\n", `513 No such version "x"`},
		{"AUTHENTICATE x\r\n", "551 Invalid hexadecimal encoding.  Maybe you tried a plain text password?  If so, the standard requires that you put it in double quotes."},
		{"AUTHENTICATE a=b\r\n", "512 AUTHENTICATE does not accept keyword arguments."},
		{"AUTHENTICATE 00 00\r\n", "512 Too many arguments to AUTHENTICATE."},
		{"AUTHENTICATE \"x\r\n", "512 Bad arguments to AUTHENTICATE: Cannot parse keyword argument(s)"},
		{"AUTHCHALLENGE X 00\r\n", "513 AUTHCHALLENGE only supports SAFECOOKIE authentication"},
		{"AUTHCHALLENGE SAFECOOKIE\r\n", "512 Wrong number of arguments for AUTHCHALLENGE"},
		{"AUTHCHALLENGE SAFECOOKIE 00 00\r\n", "512 Wrong number of arguments for AUTHCHALLENGE"},
		{"AUTHCHALLENGE SAFECOOKIE xx\r\n", "513 Invalid base16 client nonce"},
		{"+LOADCONF\r\nA 1\r\n.\r\n", "514 Authentication required."},
		{"QUIT\r\n", "250 closing connection"},
		{"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nAUTHENTICATE\r\nSIGNAL HALT\r\n", "HTTP/1.0 501 This is a Tor control port, which does not speak HTTP|Content-Length: 0|Connection: close|"},
		{strings.Repeat("a", strangerInput) + "\r\n", "500 Line too long."},
	} {
		r := newRig(t, Auth{Cookie: cookie, CookieFile: "/a"})
		one := r.dial()
		one.send(c.say)
		one.wantEnd(strings.ReplaceAll(c.want, "|", "\r\n") + "\r\n")
		if len(r.engine.done) > 0 {
			t.Error(c.say, r.engine.done)
		}
	}
}

// TestNoCookie: there is no challenge without a cookie.
func TestNoCookie(t *testing.T) {
	one := newRig(t, Auth{}).dial()
	one.send("AUTHCHALLENGE SAFECOOKIE 00\r\n")
	one.wantEnd("515 Cookie authentication is disabled\r\n")
}

// TestSafeCookie: both sides show that they know the cookie, and after a challenge nothing else counts.
func TestSafeCookie(t *testing.T) {
	hash := func(key string, nonces ...[]byte) string {
		h := hmac.New(sha256.New, []byte(key))
		h.Write(cookie)
		for _, n := range nonces {
			h.Write(n)
		}
		return strings.ToUpper(hex.EncodeToString(h.Sum(nil)))
	}
	for _, how := range []string{"right", "wrong", "short", "the cookie itself"} {
		one := newRig(t, Auth{Cookie: cookie, CookieFile: "/a"}).dial()
		mine := []byte{1, 2, 3}
		one.send("AUTHCHALLENGE safecookie 010203\r\n")
		line, err := one.in.ReadString('\n')
		f := strings.Fields(line)
		if err != nil || len(f) != 4 || f[0]+f[1] != "250AUTHCHALLENGE" {
			t.Fatal(line, err)
		}
		theirs, err := hex.DecodeString(strings.TrimPrefix(f[3], "SERVERNONCE="))
		if err != nil || len(theirs) != 32 {
			t.Fatal(line, err)
		}
		if f[2] != "SERVERHASH="+hash(keyOfServer, mine, theirs) {
			t.Error(line)
		}
		answer := hash(keyOfClient, mine, theirs)
		switch how {
		case "right":
			one.send("AUTHENTICATE " + answer + "\r\n")
			one.want("250 OK\r\n")
		case "wrong":
			one.send("AUTHENTICATE " + hash(keyOfServer, mine, theirs) + "\r\n")
			one.wantEnd("515 Authentication failed: Safe cookie response did not match expected value.\r\n")
		case "short":
			one.send("AUTHENTICATE " + answer[2:] + "\r\n")
			one.wantEnd("515 Authentication failed: Wrong length for safe cookie response.\r\n")
		default:
			one.send("AUTHENTICATE " + hex.EncodeToString(cookie) + "\r\n")
			one.wantEnd("515 Authentication failed: Safe cookie response did not match expected value.\r\n")
		}
	}
}
