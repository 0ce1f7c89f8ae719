package client

import (
	"errors"
	"net/netip"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/stream"
)

// An exit answers for names that others own. A hostile one could say that a name
// is an address of the user's machine or network. The user's program would then
// connect there directly, and send what it had for the name (C tor:
// ClientDNSRejectInternalAddresses).

var errInternalAnswer = fault.New(fault.Refused, "the exit says that the name is an address of a machine or network of one's own, which is not believed")

// rejects reports whether a switch about private addresses is on.
func (c *Client) rejects(s Switch) bool {
	return s == On || s == Auto && !c.cfg.Network.Testing.AllowPrivateAddresses
}

// believeAddr judges an address that an exit tells; invalid: it told none. No
// server has the unspecified address.
func (c *Client) believeAddr(a netip.Addr) error {
	if !a.IsValid() || !netaddr.Plain(a).IsUnspecified() && (!c.rejects(c.cfg.RejectInternalAnswers) || netaddr.Public(a)) {
		return nil
	}
	return errInternalAnswer
}

// believeEnd adds to the error of an exit that refuses a stream that no other
// exit can help, if the address is private: no exit lets streams out to those.
func (c *Client) believeEnd(err error) error {
	var end *stream.EndError
	if !errors.As(err, &end) || end.Reason != cell.EndExitPolicy {
		return err
	}
	if e := c.believeAddr(end.Addr); e != nil {
		return fault.New(fault.Refused, "%w: %w", e, err)
	}
	return err
}

// believeAnswers removes the answers of a lookup that are not believed.
func (c *Client) believeAnswers(all []stream.Answer) ([]stream.Answer, error) {
	var kept []stream.Answer
	for _, a := range all {
		if c.believeAddr(a.Addr) == nil {
			kept = append(kept, a)
		}
	}
	if len(kept) == 0 {
		return nil, fault.New(fault.Refused, "resolve: %w", errInternalAnswer)
	}
	return kept, nil
}
