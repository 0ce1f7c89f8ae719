package client

import (
	"errors"
	"net/netip"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/stream"
)

// An exit answers for names that others own. One that says that a name is an
// address of the user's machine or network would have the user's program
// connect there, past the network, with what it had for the name (C tor:
// ClientDNSRejectInternalAddresses).

var errInternalAnswer = fault.New(fault.Refused, "the exit says that the name is an address of a machine or network of one's own, which is not believed")

// rejects says what a switch about private addresses comes to.
func (c *Client) rejects(s Switch) bool {
	return s == On || s == Auto && !c.cfg.Network.Testing.AllowPrivateAddresses
}

// believeAddr judges an address that an exit tells; invalid: it told none. The
// unspecified address is nowhere at all.
func (c *Client) believeAddr(a netip.Addr) error {
	if !a.IsValid() || !netaddr.Plain(a).IsUnspecified() && (!c.rejects(c.cfg.RejectInternalAnswers) || netaddr.Public(a)) {
		return nil
	}
	return errInternalAnswer
}

// believeEnd adds to the error of an exit that refuses a stream whether it is
// of no use to ask others: no exit lets streams out to private addresses.
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

// believeAnswers leaves out of a lookup's answers those that are not believed.
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
