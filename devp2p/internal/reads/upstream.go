package reads

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/chivenet/chive/devp2p/internal/rpcserver"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// What an upstream can make us hold and do.
const (
	maxAnswer   = 4 << 20          // bytes of an answer: a block with its transactions
	maxCalls    = 8                // calls under way
	callTime    = 30 * time.Second // for one answer, with the circuit that it needs
	maxMessage  = 512              // bytes of an error's text that are passed on
	maxErrData  = 64 << 10         // bytes of an error's data: what a contract says of its refusal
	requestID   = "1"              // each request has a connection or a stream of its own
	contentType = "application/json"
)

// An upstream is a node that the user has named.
type upstream struct {
	address *Address
	chain   func() (uint64, bool)
	all     accounts
	calls   chan struct{} // a place for each call under way
}

// refused is the answer of a call that could not be made, or whose answer is of no use.
func refused(format string, a ...any) *rpcserver.Error {
	return rpcserver.Errorf(rpcserver.CodeRefused, format, a...)
}

// call asks the upstream, by the circuits of a key, after it has told the right chain ID. An error
// that the upstream answered is a *said.
func (u *upstream) call(ctx context.Context, key, method string, params ...any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	select {
	case u.calls <- struct{}{}:
		defer func() { <-u.calls }()
	case <-ctx.Done():
		return nil, refused("the upstream is busy with other calls: try again")
	}
	a := u.all.get(key)
	if err := u.checkChain(ctx, a); err != nil {
		u.all.forget(a)
		return nil, err
	}
	return u.ask(ctx, a, method, params)
}

// checkChain asks for the chain ID, unless it was right a short time ago.
func (u *upstream) checkChain(ctx context.Context, a *account) error {
	want, ok := u.chain()
	if !ok {
		return refused("the chain is not known yet, so the upstream's chain ID cannot be checked: wait for peers, or name the chain by --network or --genesis")
	}
	a.mu.Lock()
	fresh := !a.checked.IsZero() && time.Since(a.checked) < chainTime
	a.mu.Unlock()
	if fresh {
		return nil
	}
	raw, err := u.ask(ctx, a, "eth_chainId", nil)
	if err != nil {
		return err
	}
	var got hexutil.Uint64
	if err := json.Unmarshal(raw, &got); err != nil {
		return u.lie("its chain ID is no number")
	}
	if uint64(got) != want {
		return u.lie(fmt.Sprintf("it is a node of chain %d, and this is chain %d: give --rpc-upstream a node of the same chain", uint64(got), want))
	}
	a.mu.Lock()
	a.checked = time.Now()
	a.mu.Unlock()
	return nil
}

// lie is the error of an answer that cannot be right.
func (u *upstream) lie(what string) *rpcserver.Error {
	return refused("the upstream (%s) gave a wrong answer, and nothing of it is used: %s", u.address, what)
}

// fail is the error of a call that got no answer.
func (u *upstream) fail(err error) *rpcserver.Error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err // without the URL, which may have a key in it
	}
	if e := (*net.OpError)(nil); errors.As(err, &e) {
		err = e.Err
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return refused("the upstream (%s) did not answer within %v", u.address, callTime)
	case badCertificate(err):
		return refused("the upstream's certificate is refused (%s): %v", u.address, err)
	}
	return refused("the upstream (%s) cannot be asked: %v", u.address, err)
}

func badCertificate(err error) bool {
	var host x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &host) || errors.As(err, &authority) || errors.As(err, &invalid)
}

// answer is what an upstream sends.
type answer struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// ask makes one call.
func (u *upstream) ask(ctx context.Context, a *account, method string, params []any) (json.RawMessage, error) {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(requestID), "method": method, "params": params})
	if err != nil {
		return nil, rpcserver.Errorf(rpcserver.CodeParams, "the parameters cannot be sent")
	}
	raw, err := u.exchange(ctx, a, body)
	if err != nil {
		return nil, err
	}
	var got answer
	if err := json.Unmarshal(raw, &got); err != nil || string(bytes.TrimSpace(got.ID)) != requestID {
		return nil, u.lie("it is no answer of JSON-RPC to the call")
	}
	if got.Error == nil {
		if got.Result == nil {
			return nil, u.lie("it has neither a result nor an error")
		}
		return got.Result, nil
	}
	e := &rpcserver.Error{Code: got.Error.Code, Message: "the upstream says: " + plain(got.Error.Message)}
	var data hexutil.Bytes
	if len(got.Error.Data) <= maxErrData && json.Unmarshal(got.Error.Data, &data) == nil {
		e.Data = data // wallets read in it why a contract refused
	}
	return nil, &said{e}
}

// said is an error that the upstream answered.
type said struct{ answer *rpcserver.Error }

func (s *said) Error() string { return s.answer.Message }
func (s *said) Unwrap() error { return s.answer }

// plain returns a text of the upstream without what controls a terminal, and cut to a bound.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "..."
	}
	return s
}

// exchange sends a body and reads the answer to it.
func (u *upstream) exchange(ctx context.Context, a *account, body []byte) ([]byte, error) {
	if u.address.Local() {
		return u.overSocket(ctx, body)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.address.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, u.fail(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", contentType)
	req.Header.Set("User-Agent", "") // says nothing about this program
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, u.fail(err)
	}
	defer resp.Body.Close()
	raw, err := u.limited(resp.Body)
	if err != nil {
		return nil, err
	}
	// Some servers answer errors of JSON-RPC with another status.
	if resp.StatusCode != http.StatusOK && !json.Valid(raw) {
		return nil, refused("the upstream (%s) answers with status %d", u.address, resp.StatusCode)
	}
	return raw, nil
}

// limited reads an answer that has a bound.
func (u *upstream) limited(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err != nil {
		return nil, u.fail(err)
	}
	if len(raw) > maxAnswer {
		return nil, u.lie(fmt.Sprintf("it has more than %d bytes", maxAnswer))
	}
	return raw, nil
}

// overSocket makes a call by the IPC socket of a node: one JSON text in each direction.
func (u *upstream) overSocket(ctx context.Context, body []byte) ([]byte, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", u.address.socket)
	if err != nil {
		return nil, u.fail(err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := c.Write(append(body, '\n')); err != nil {
		return nil, u.ended(ctx, err)
	}
	bounded := &io.LimitedReader{R: c, N: maxAnswer + 1}
	var raw json.RawMessage
	if err := json.NewDecoder(bounded).Decode(&raw); err != nil {
		if bounded.N <= 0 {
			return nil, u.lie(fmt.Sprintf("it has more than %d bytes", maxAnswer))
		}
		return nil, u.ended(ctx, err)
	}
	return raw, nil
}

// ended is fail for a connection that ctx may have closed.
func (u *upstream) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return u.fail(err)
}
