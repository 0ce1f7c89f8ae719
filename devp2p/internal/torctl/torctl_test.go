package torctl

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/program/programtest"
)

// daemon answers the lines of a connection, until answer returns "".
func daemon(t *testing.T, answer func(line string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r := bufio.NewScanner(c)
			for r.Scan() {
				a := answer(r.Text())
				if a == "" {
					break
				}
				c.Write([]byte(strings.ReplaceAll(a, "\n", "\r\n") + "\r\n"))
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestAuthenticate(t *testing.T) {
	programtest.NoLeaks(t)
	cookie := bytes.Repeat([]byte{7}, 32)
	file := filepath.Join(t.TempDir(), `a "file"`)
	if err := os.WriteFile(file, cookie, 0o600); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, cookie[:31], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		methods string
		auth    Auth
		liar    bool // the daemon does not know the cookie
		want    string
		err     string
	}{
		{"nothing", "NULL", Auth{}, false, "AUTHENTICATE", ""},
		{"safe cookie", "COOKIE,SAFECOOKIE,HASHEDPASSWORD", Auth{}, false, "proof", ""},
		{"another daemon", "SAFECOOKIE", Auth{}, true, "", "does not know its own cookie"},
		{"password", "COOKIE,SAFECOOKIE,HASHEDPASSWORD", Auth{Password: `a "b\` + "\xff"}, false, `AUTHENTICATE "a \"b\\\377"`, ""},
		{"no password", "SAFECOOKIE", Auth{Password: "x"}, false, "", "no password"},
		{"password missing", "HASHEDPASSWORD", Auth{}, false, "", "wants a password"},
		{"plain cookie of the user's", "COOKIE", Auth{CookieFile: file}, false, "AUTHENTICATE " + hex.EncodeToString(cookie), ""},
		{"plain cookie of the daemon's", "COOKIE", Auth{}, false, "", "none of its ways"},
		{"short", "SAFECOOKIE", Auth{CookieFile: short}, false, "", "31 bytes"},
		{"missing", "SAFECOOKIE", Auth{CookieFile: short + "x"}, false, "", "cookie"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got, proof string
			addr := daemon(t, func(line string) string {
				switch word, rest, _ := strings.Cut(line, " "); word {
				case "PROTOCOLINFO":
					return fmt.Sprintf("250-PROTOCOLINFO 1\n250-AUTH METHODS=%s COOKIEFILE=%s\n250-VERSION Tor=\"0.4.9.11\"\n250 OK", c.methods, quote(file))
				case "AUTHCHALLENGE":
					mine, err := hex.DecodeString(strings.TrimPrefix(rest, "SAFECOOKIE "))
					if err != nil {
						return "512 Invalid"
					}
					known := cookie
					if c.liar {
						known = make([]byte, 32)
					}
					nonce := bytes.Repeat([]byte{9}, 32)
					sum := func(key string) string {
						h := hmac.New(sha256.New, []byte(key))
						h.Write(slices.Concat(known, mine, nonce))
						return strings.ToUpper(hex.EncodeToString(h.Sum(nil)))
					}
					proof = strings.ToLower(sum(clientKey))
					return fmt.Sprintf("250 AUTHCHALLENGE SERVERHASH=%s SERVERNONCE=%X", sum(serverKey), nonce)
				case "AUTHENTICATE":
					got = line
					return "250 OK"
				}
				return "510 Unrecognized command"
			})
			conn, err := Dial(t.Context(), addr, c.auth)
			if err == nil {
				defer conn.Close()
			}
			want := c.want
			if want == "proof" {
				want = "AUTHENTICATE " + proof
			}
			if got != want {
				t.Errorf("%q, not %q", got, want)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, not %q", err, c.err)
			}
		})
	}
}

func TestCommand(t *testing.T) {
	programtest.NoLeaks(t)
	addr := daemon(t, func(line string) string {
		switch line {
		case "PROTOCOLINFO 1":
			return "250-AUTH METHODS=NULL\n250 OK"
		case "DATA":
			return "650 HS_DESC UPLOAD x\n250+x=\n..a\nb\n.\n250 OK"
		case "BAD":
			return "513 No"
		case "HANG":
			return "250-and"
		case "END":
			return ""
		}
		return "250 OK"
	})
	c, err := Dial(t.Context(), addr, Auth{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := c.Command(t.Context(), "DATA")
	if err != nil || !slices.Equal(got, []string{"x=", ".a", "b", "OK"}) {
		t.Errorf("%q, %v", got, err)
	}
	if e := <-c.Events(); e != "HS_DESC UPLOAD x" {
		t.Errorf("%q", e)
	}
	var e *Error
	if _, err := c.Command(t.Context(), "BAD"); !errors.As(err, &e) || e.Code != 513 || e.Text != "No" {
		t.Error(err)
	}
	if _, err := c.Command(t.Context(), "A\r\nB"); err == nil {
		t.Error("two commands in one")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Command(ctx, "HANG"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-c.Done()
	if _, open := <-c.Events(); open {
		t.Error("events go on after the end")
	}
	c, err = Dial(t.Context(), addr, Auth{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Command(t.Context(), "END"); err == nil {
		t.Error("a reply after the end")
	}
}

func TestReadReplyBounds(t *testing.T) {
	for want, text := range map[string]string{
		"too long":              "250 " + strings.Repeat("x", maxLine) + "\r\n",
		"too many":              strings.Repeat("250-x\r\n", maxLines+1) + "250 OK\r\n",
		"a reply with too many": "250+x\r\n" + strings.Repeat("x\r\n", maxLines+1),
		"without a code":        "hello\r\n",
		"two codes":             "250-x\r\n251 x\r\n",
		"separator":             "250x\r\n",
		"EOF":                   "250-x\r\n",
	} {
		if _, _, err := readReply(bufio.NewReaderSize(strings.NewReader(text), maxLine)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// FuzzReply reads any bytes as replies, and as what PROTOCOLINFO and AUTHCHALLENGE answer.
func FuzzReply(f *testing.F) {
	f.Add("250-PROTOCOLINFO 1\r\n250-AUTH METHODS=COOKIE,SAFECOOKIE COOKIEFILE=\"/run/tor/\\303\\274\"\r\n250 OK\r\n")
	f.Add("250 AUTHCHALLENGE SERVERHASH=" + strings.Repeat("00", 32) + " SERVERNONCE=" + strings.Repeat("11", 32) + "\r\n")
	f.Add("650+X\r\n..\r\n.\r\n650 OK\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := bufio.NewReaderSize(strings.NewReader(text), maxLine)
		for {
			code, lines, err := readReply(r)
			if err != nil {
				return
			}
			if code < 200 || code > 699 || len(lines) == 0 {
				t.Fatalf("%d, %q", code, lines)
			}
			parseProtocolInfo(lines)
			parseChallenge(lines)
		}
	})
}

// FuzzQuote: what is quoted reads back the same, and is one line.
func FuzzQuote(f *testing.F) {
	f.Add(`a "b\` + "\n\x00\xff7")
	f.Fuzz(func(t *testing.T, s string) {
		q := quote(s)
		if got := unquote(q); got != s || strings.ContainsAny(q, "\r\n\x00") {
			t.Fatalf("%q, then %q, then %q", s, q, got)
		}
	})
}
