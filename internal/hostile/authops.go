package hostile

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// authOps lists what unknown peers and a hostile authority send to honest
// authorities. A & 3 mostly names the connection, and A >> 2 & 1 the authority.
var authOps = table[*authWorld]{
	opEnd: {"end", func(w *authWorld, i Insn) {
		if i.A%2 == 0 {
			if s := w.conns[i.B&3]; s != nil {
				s.conn.Close()
			}
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for c := range w.ends {
			c.Close()
		}
	}},
	opWait: {"wait", func(w *authWorld, i Insn) {
		d := min(pick(waits, i.A), w.patience)
		w.patience -= d
		later(d)
	}},
	{"get", (*authWorld).doGet},
	{"post", (*authWorld).doPost},
	{"more", (*authWorld).doMore},
	{"read", func(w *authWorld, i Insn) {
		if s := w.conns[i.A&3]; s != nil {
			_ = s.conn.SetReadDeadline(now().Add(time.Second))
			b := make([]byte, pick(counts, i.B))
			for n := range pick(counts, i.C) * 20 {
				if _, err := s.conn.Read(b); err != nil || n < 0 {
					return
				}
			}
		}
	}},
	{"vote", (*authWorld).doVote},
	{"signature", (*authWorld).doSignature},
	{"script", func(w *authWorld, i Insn) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.script = i
	}},
	{"honest", func(w *authWorld, i Insn) { w.upload(int(i.A) % honestRelay) }},
	{"crowd", (*authWorld).doCrowd},
}

// dial opens the connection that an argument names, and closes the one before it
// in that place; with A & 8 it comes from another address.
func (w *authWorld) dial(a byte) *stranger {
	slot := int(a) & 3
	if old := w.conns[slot]; old != nil {
		old.conn.Close()
	}
	from := netip.AddrFrom4([4]byte{10, 0, 4, a >> 3 & 1})
	c, err := w.net.Dialer(from)(context.Background(), authAddr(int(a>>2&1)))
	if err != nil {
		w.conns[slot] = nil
		return nil // an authority may refuse the connection
	}
	w.conns[slot] = &stranger{conn: c}
	return w.conns[slot]
}

// write sends bytes. It does not wait long.
func (s *stranger) write(b []byte) {
	_ = s.conn.SetWriteDeadline(now().Add(writeTime))
	_, _ = s.conn.Write(b) // an authority may close the connection
}

var gets = []string{
	"/tor/status-vote/current/consensus-microdesc", "/tor/status-vote/current/consensus", "/tor/keys/all", "/tor/keys/authority", "/tor/server/all", "/tor/server/authority",
	"/tor/status-vote/next/authority", "/tor/status-vote/next/consensus", "/tor/status-vote/next/consensus-signatures", "/tor/status-vote/current/authority",
	"/tor/status-vote/next/d/" + strings.Repeat(strings.Repeat("a", 40)+"+", 90), "/tor/status-vote/next/bandwidth", "/tor/micro/d/" + strings.Repeat("A", 43),
	"/tor/server/d/" + strings.Repeat("0", 40), "/tor/server/fp/" + strings.Repeat(strings.Repeat("0", 40)+"+", 90), "/tor/extra/all", "/tor/", "/", "", "/tor/status-vote/current/consensus-microdesc/" + strings.Repeat("0", 40) + "+x", "*", "/tor/\x00",
}

// doGet sends a GET request: B says for which document, C with which headers.
func (w *authWorld) doGet(i Insn) {
	s := w.dial(i.A)
	if s == nil {
		return
	}
	head := pick([]string{
		"", "Accept-Encoding: deflate, gzip, x-zstd, x-tor-lzma\r\n", "If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n", "X-Or-Diff-From-Consensus: " + strings.Repeat("A", 64) + "\r\n",
		"Content-Length: 100\r\n", "Transfer-Encoding: chunked\r\n", "X: " + strings.Repeat("x", 10000) + "\r\n", ":\r\n", "Accept-Encoding: " + strings.Repeat("gzip,", 500) + "\r\n",
	}, i.C)
	text := fmt.Sprintf("%s %s HTTP/1.%d\r\n%s\r\n", pick([]string{"GET", "HEAD", "POST", "GET", ""}, i.C>>4), pick(gets, i.B), i.C>>7, head)
	s.write([]byte(text))
}

// documentOf returns the path and the body of an upload; B >> 4, modulo, selects
// them.
func (w *authWorld) documentOf(i Insn) (path string, body []byte) {
	w.mu.Lock()
	vote, sig := bytes.Clone(w.vote), bytes.Clone(w.sig)
	w.mu.Unlock()
	relay := honestRelay + int(i.B>>2)%(authRelays-honestRelay)
	times := 1 + int(i.C>>4)
	switch i.B & 15 {
	case 0, 1, 2:
		return "/tor/", descriptor(relay, honestPlatform)
	case 3: // the same descriptor many times
		return "/tor/", bytes.Repeat(descriptor(relay, honestPlatform), times)
	case 4: // another descriptor each time
		var all []byte
		for n := range times {
			all = append(all, descriptor(relay, fmt.Sprint("Tor 0.4.9.", n))...)
		}
		return "/tor/", all
	case 5: // an honest relay's descriptor with one wrong bit
		d := descriptor(0, honestPlatform)
		if len(d) > 0 {
			d[(int(i.C)*len(d))>>8] ^= 1
		}
		return "/tor/", d
	case 6:
		return "/tor/post/vote", bytes.Repeat(vote, times)
	case 7:
		return "/tor/post/consensus-signature", bytes.Repeat(sig, times)
	case 8:
		return "/tor/post/vote", bytes.Repeat([]byte("network-status-version 3\n"), times*100)
	case 9:
		return "/tor/", bytes.Repeat([]byte("router x 10.0.0.1 1 0 0\n"), times*100)
	case 10:
		return "/tor/", bytes.Repeat([]byte("extra-info x "+strings.Repeat("A", 40)+"\n"), times*100)
	case 11:
		return "/tor/", slices.Concat(vote, sig, descriptor(relay, honestPlatform))
	}
	return pick([]string{"/tor/", "/tor/post/vote", "/tor/post/consensus-signature", "/"}, i.B), nil
}

// doPost posts a document: B says which, C & 7 how the length is given, and with C
// & 8 only a part is sent at once.
func (w *authWorld) doPost(i Insn) {
	s := w.dial(i.A)
	if s == nil {
		return
	}
	path, body := w.documentOf(i)
	n := int64(len(body))
	length := fmt.Sprint(pick([]int64{n, n, n, n + 1, n - 1, 0, 1 << 40, -1}, i.C&7))
	s.write([]byte(fmt.Sprintf("POST %s HTTP/1.0\r\nContent-Length: %s\r\n\r\n", path, length)))
	if i.C&8 != 0 {
		s.body = body
		return
	}
	s.write(body)
}

// doMore sends more of a body: B says how much of the rest.
func (w *authWorld) doMore(i Insn) {
	if s := w.conns[i.A&3]; s != nil {
		n := min(len(s.body), 1+len(s.body)*int(i.B)/255)
		s.write(s.body[:n])
		s.body = s.body[n:]
	}
}

// doVote makes the hostile authority send another authority's vote with one
// change.
func (w *authWorld) doVote(i Insn) {
	k, err := authNet()
	if err != nil {
		return // newAuthWorld has reported it
	}
	w.mu.Lock()
	text := w.vote
	w.mu.Unlock()
	v, err := netdoc.ParseVote(text)
	if err != nil {
		return // there is no vote yet
	}
	v.Cert = k.cert[2]
	v.Source.Identity, v.Source.Nickname = k.cert[2].Identity, "auth2"
	n := 1 + int(i.C)
	switch i.B % 16 {
	case 1: // the same relays many times
		v.Routers = slices.Repeat(v.Routers, min(n, 32))
	case 2: // no relays
		v.Routers = nil
	case 3:
		for j := range v.Routers {
			v.Routers[j].Flags = ^v.Routers[j].Flags
		}
	case 4: // relays that do not exist
		for j := range min(n, 100) {
			if len(v.Routers) > 0 {
				r := v.Routers[0]
				r.RSA[0], r.RSA[1] = byte(j), 0xff
				r.Ed[0] = byte(j)
				v.Routers = append(v.Routers, r)
			}
		}
	case 5:
		v.Methods = []int{n}
	case 6:
		v.Params = nil
		for j := range n {
			v.Params = append(v.Params, netdoc.Param{Name: fmt.Sprintf("p%03d", j), Value: int32(1) << (n % 31)})
		}
	case 7:
		v.ValidAfter = v.ValidAfter.Add(time.Duration(n) * time.Second)
	case 8:
		v.VoteDelay, v.DistDelay = time.Duration(n)*time.Hour, 0
	case 9:
		v.SharedRandCommits = slices.Repeat([]string{"1 sha3-256 " + k.cert[2].Identity.String() + " " + strings.Repeat("A", 56)}, n)
	case 10:
		v.ClientVersions, v.HasVersions = strings.Repeat("0.4.9.11,", n)+"0.4.9.12", true
	case 11:
		v.KnownFlags = append(v.KnownFlags, fmt.Sprintf("Zz%d", n))
	case 12: // another authority's name
		v.Cert = k.cert[0]
	case 13:
		for j := range v.Routers {
			v.Routers[j].Bandwidth = 1 << 31
			v.Routers[j].Addr = v.Routers[0].Addr
		}
	case 14:
		v.Packages = slices.Repeat([]string{"a 1 http://x sha256=" + strings.Repeat("A", 43)}, n)
	}
	out, err := signVote(v, k, i.B>>4)
	if err != nil {
		return // the format of votes does not allow it
	}
	if s := w.dial(i.A); s != nil {
		s.write([]byte(fmt.Sprintf("POST /tor/post/vote HTTP/1.0\r\nContent-Length: %d\r\n\r\n", len(out))))
		s.write(out)
	}
}

// signVote signs a vote with the hostile authority's key, or, if wrong is set,
// with a key that is not its own.
func signVote(v *netdoc.Vote, k *authKeys, wrong byte) (text []byte, err error) {
	key := k.signing[2]
	if wrong == 15 {
		key = k.identity[2]
	}
	out, err := v.Sign(rand.Reader, key)
	if err != nil {
		return nil, err
	}
	return out.Text, nil
}

// doSignature posts received signatures with one change: B says which.
func (w *authWorld) doSignature(i Insn) {
	w.mu.Lock()
	sig := bytes.Clone(w.sig)
	w.mu.Unlock()
	if len(sig) == 0 {
		return
	}
	switch i.B % 6 {
	case 1:
		sig[(int(i.C)*len(sig))>>8] ^= 1
	case 2:
		sig = bytes.Repeat(sig, 1+int(i.C))
	case 3:
		sig = sig[:(int(i.C)*len(sig))>>8]
	case 4: // the signatures many times
		if at := bytes.Index(sig, []byte("directory-signature")); at > 0 {
			sig = append(sig, bytes.Repeat(sig[at:], 1+int(i.C))...)
		}
	case 5:
		k, err := authNet()
		if err != nil {
			return
		}
		sig = bytes.ReplaceAll(sig, []byte(k.cert[0].Identity.String()), []byte(k.cert[2].Identity.String()))
	}
	if s := w.dial(i.A); s != nil {
		s.write([]byte(fmt.Sprintf("POST /tor/post/consensus-signature HTTP/1.0\r\nContent-Length: %d\r\n\r\n", len(sig))))
		s.write(sig)
	}
}

// doCrowd opens as many connections as B says. Each sends a word and no more.
func (w *authWorld) doCrowd(i Insn) {
	dial := w.net.Dialer(netip.AddrFrom4([4]byte{10, 0, 4, i.A >> 3 & 1}))
	for range min(pick(counts, i.B), memoryCrowd) {
		c, err := dial(context.Background(), authAddr(int(i.A>>2&1)))
		if err != nil {
			return
		}
		_, _ = c.Write([]byte("GET /tor/")[:i.C%10])
		w.crowd = append(w.crowd, c)
	}
}

// memoryCrowd bounds a crowd by the backlog of a listener in memory.
const memoryCrowd = 60
