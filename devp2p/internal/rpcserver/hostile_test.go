package rpcserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// hostileRequest is what a page, or a program of another user, can send.
type hostileRequest struct {
	name string
	text string
	// want is what the port may answer; zero: it ends the connection without an answer.
	want []int
}

// send sends a request, and returns the answer's status; zero: there is none.
func (h hostileRequest) send(addr string) int {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0
	}
	defer c.Close()
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		_, _ = io.WriteString(c, h.text) // the port may end it before the end
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	c.Close()
	<-wrote
	if err != nil {
		return 0
	}
	return resp.StatusCode
}

// TestThousandHostile: a thousand requests that are wrong in their Host, their Origin or their size, beside
// a hundred connections that send slowly, make no call. After each ten of them a wallet gets its answer.
func TestThousandHostile(t *testing.T) {
	addr := serve(t, nil, nil)
	const body = `{"jsonrpc":"2.0","id":1,"method":"now"}`
	post := func(host, more, body string, length int) string {
		return fmt.Sprintf("POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n%s", host, length, more, body)
	}
	kinds := []hostileRequest{
		{"foreign Host", post("wallet.example:8545", "", body, len(body)), []int{http.StatusForbidden, http.StatusMisdirectedRequest}},
		{"rebound Host", post("127.0.0.1.nip.example", "", body, len(body)), []int{http.StatusForbidden, http.StatusMisdirectedRequest}},
		{"foreign Origin", post(addr, "Origin: https://wallet.example\r\n", body, len(body)), []int{http.StatusForbidden}},
		{"Origin null", post(addr, "Origin: null\r\n", body, len(body)), []int{http.StatusForbidden}},
		{"another extension", post(addr, "Origin: chrome-extension://abcdefghijklmnopabcdefghijklmnop\r\n", body, len(body)), []int{http.StatusForbidden}},
		{"asks before (CORS)", "OPTIONS / HTTP/1.1\r\nHost: " + addr + "\r\nOrigin: https://wallet.example\r\nConnection: close\r\nAccess-Control-Request-Method: POST\r\n\r\n", []int{http.StatusForbidden}},
		{"a form", strings.Replace(post(addr, "", body, len(body)), "application/json", "text/plain", 1), []int{http.StatusUnsupportedMediaType}},
		{"says it is huge", post(addr, "", strings.Repeat(" ", 4096), 1<<40), []int{0, http.StatusRequestEntityTooLarge}},
		{"huge header", post(addr, "X: "+strings.Repeat("x", 1<<20)+"\r\n", body, len(body)), []int{0, http.StatusRequestHeaderFieldsTooLarge}},
		{"no HTTP", strings.Repeat("\x16\x03\x01", 20) + "\r\n\r\n", []int{http.StatusBadRequest}},
	}
	counts := map[string]map[int]int{}
	for i := range 1000 {
		k := kinds[i%len(kinds)]
		if counts[k.name] == nil {
			counts[k.name] = map[int]int{}
		}
		counts[k.name][k.send(addr)]++
		if i%len(kinds) != 0 {
			continue
		}
		c, err := net.Dial("tcp", addr) // one that sends slowly stays beside them
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, post(addr, "", "{", len(body))); err != nil {
			t.Fatal(err)
		}
		if status, got, err := call(addr, "now", 1); err != nil || status != http.StatusOK || !strings.Contains(got, `"now"`) {
			t.Fatalf("after %d, a wallet gets %d %s, %v", i, status, got, err)
		}
	}
	for _, k := range kinds {
		t.Log(k.name, counts[k.name])
		for status, n := range counts[k.name] {
			if !slices.Contains(k.want, status) {
				t.Errorf("%s: %d times %d", k.name, n, status)
			}
		}
	}
}
