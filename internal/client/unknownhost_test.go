package client

import (
	"errors"
	"net"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/netdir"
)

// TestUnknownHost: of a host that does not exist, a program reads what net.Dialer would say. A
// lookup that failed otherwise may do better later.
func TestUnknownHost(t *testing.T) {
	c, l := withLiars(t, Config{Network: netdir.Public()})
	failed := (&cell.End{Reason: cell.EndResolveFailed}).Append(nil)
	resolved := func(a cell.AnswerType) []byte {
		b, err := cell.Resolved{{Type: a}}.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	empty, err := cell.Resolved{}.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	dial := func() error { _, err := c.Dial(t.Context(), Request{Host: "example.com", Port: 443}); return err }
	lookup := func() error { _, err := c.Resolve(t.Context(), Request{Host: "example.com"}); return err }
	onion := func() error { _, err := c.Dial(t.Context(), Request{Host: "nosuch.onion", Port: 80}); return err }
	for name, x := range map[string]struct {
		ask     func() error
		cmd     cell.RelayCommand
		body    []byte
		unknown bool // or it may do better later
	}{
		"BEGIN":                       {dial, cell.RelayEnd, failed, true},
		"RESOLVE":                     {lookup, cell.RelayResolved, resolved(cell.AnswerError), true},
		"RESOLVE, without an answer":  {lookup, cell.RelayResolved, empty, true},
		"RESOLVE, a transient error":  {lookup, cell.RelayResolved, resolved(cell.AnswerErrorTransient), false},
		"RESOLVE, ended":              {lookup, cell.RelayEnd, failed, false},
		"a name that no onion can be": {onion, cell.RelayEnd, failed, true},
	} {
		l.say(x.cmd, x.body)
		err := x.ask()
		dns, ok := errors.AsType[*net.DNSError](err)
		if !ok || dns.IsNotFound != x.unknown || dns.IsTemporary == x.unknown || dns.Name != "[scrubbed]" || dns.Timeout() {
			t.Errorf("%s: %v, %+v", name, err, dns)
		}
	}
}
