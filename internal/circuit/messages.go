package circuit

import (
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// A messageHandler takes a relay message of one command, on home's reader; it
// must not block. m.Data is valid during the call only. cc is the command of the
// cell that carried it. An error is a violation of the protocol: the circuit is
// destroyed.
type messageHandler func(h *Hop, m cell.RelayMsg, cc cell.Command) error

// messages says what the engine does with a message, by its command and by the
// end that takes it: one about the circuit, or one that opens a stream. Other
// messages of streams go to their stream. At a client, a command without a handler
// is for the goroutine that waits for it (Hop.Expect), or for those that asked for
// all of them (Hop.Handle); all else is a violation. service is the onion service's
// end of a virtual hop.
var messages = [256]struct{ client, relay, service messageHandler }{
	cell.RelayDrop:             {client: dropAtClient, relay: ignore, service: dropAtClient},
	cell.RelaySendme:           {client: takeSendme, relay: takeSendme, service: takeSendme},
	cell.RelayBegin:            {relay: openStream, service: openStream},
	cell.RelayBeginDir:         {relay: openStream},
	cell.RelayResolve:          {relay: openStream},
	cell.RelayTruncate:         {relay: truncate},
	cell.RelayTruncated:        {client: truncated},
	cell.RelayExtend2:          {relay: extend},
	cell.RelayLongExtend2:      {relay: longExtend},
	cell.RelayLongExtended2:    {client: longAwaited},
	cell.RelayConfluxLink:      {relay: confluxLink},
	cell.RelayConfluxLinked:    {client: confluxLinked},
	cell.RelayConfluxLinkedAck: {relay: confluxLinkedAck},
	cell.RelayConfluxSwitch:    {client: confluxSwitch, relay: confluxSwitch},
	cell.RelayRekeyRequest:     {relay: rekeyRequest, service: onionRekeyRequest},
	cell.RelayRekeyReply:       {client: rekeyReply},
	cell.RelayRekeyConfirm:     {relay: rekeyConfirm, service: rekeyConfirm},
	cell.RelayOnionCiphertext:  {service: onionCiphertext},
	cell.RelayOnionConfirm:     {client: onionConfirm},

	cell.RelayPaddingNegotiate:  {relay: paddingNegotiate},
	cell.RelayPaddingNegotiated: {client: paddingNegotiated},

	cell.RelayEstablishIntro:      {relay: establishIntro},
	cell.RelayIntroduce1:          {relay: introduce1},
	cell.RelayEstablishRendezvous: {relay: establishRendezvous},
	cell.RelayRendezvous1:         {relay: rendezvous1},
}

// fromRelay is the dispatcher of a client, and of an onion service, which is a
// client of its circuits.
func fromRelay(h *Hop, m cell.RelayMsg, cc cell.Command) error {
	if h.far == cell.ByClient {
		return fromVirtual(h, m, cc)
	}
	if take := messages[m.Cmd].client; take != nil {
		return take(h, m, cc)
	}
	return awaited(h, m, cc)
}

// fromVirtual takes what the client at the other end of a rendezvous sends.
func fromVirtual(h *Hop, m cell.RelayMsg, cc cell.Command) error {
	if take := messages[m.Cmd].service; take != nil {
		return take(h, m, cc)
	}
	return h.unexpected(m.Cmd)
}

// fromClient is a relay's dispatcher.
func fromClient(h *Hop, m cell.RelayMsg, cc cell.Command) error {
	if take := messages[m.Cmd].relay; take != nil {
		return take(h, m, cc)
	}
	if !m.Cmd.Known() {
		return nil // a later version's message: C tor drops these too
	}
	return h.unexpected(m.Cmd)
}

// unexpected is the violation of a peer that sends what nobody asked it for.
func (h *Hop) unexpected(cmd cell.RelayCommand) error {
	if h.far == cell.ByClient {
		return fault.New(fault.Protocol, "unexpected %v from a client", cmd)
	}
	return fault.New(fault.Protocol, "unexpected %v from hop %d", cmd, h.index+1)
}

func ignore(*Hop, cell.RelayMsg, cell.Command) error { return nil }

// awaited gives a message to the goroutine that waits for it, or to the function
// that takes all of its command.
func awaited(h *Hop, m cell.RelayMsg, _ cell.Command) error {
	if h.meta.take(m) {
		return nil
	}
	if f := h.meta.handler(m.Cmd); f != nil {
		return f(m)
	}
	return h.unexpected(m.Cmd)
}

// longAwaited is awaited for a message in fragments. Nothing is kept of a message
// that nobody waits for.
func longAwaited(h *Hop, m cell.RelayMsg, cc cell.Command) error {
	if !h.meta.waitsFor(m.Cmd) {
		return h.unexpected(m.Cmd)
	}
	whole, err := h.reassemble(m.Cmd, m.Data)
	if err != nil || whole == nil {
		return err
	}
	m.Data = whole
	return awaited(h, m, cc)
}

// truncated closes a client's circuit: what is left of it could carry nothing
// that the user asked for.
func truncated(h *Hop, m cell.RelayMsg, _ cell.Command) error {
	t, err := cell.ParseTruncated(m.Data)
	if err != nil {
		return err
	}
	h.c.lost(fault.New(fault.Network, "circuit: truncated at hop %d: %v", h.index+1, t.Reason))
	return nil
}

// openStream gives the stream handler of a relay or an onion service a message that
// opens a stream, or refuses it where there is none.
func openStream(h *Hop, m cell.RelayMsg, _ cell.Command) error {
	if h.set.Load() == nil {
		h.opened = true
	} else if m.Cmd == cell.RelayBeginDir {
		// As in C tor. It has no place in the order of the legs, but what follows it has.
		return h.RefuseStream(m.Stream, cell.End{Reason: cell.EndNotDirectory})
	}
	streams := h.accepts
	if h.c.server != nil {
		streams = h.c.server.s.cfg.Streams
	}
	if streams != nil {
		return streams.HandleStream(h, m)
	}
	reason := cell.EndExitPolicy
	if m.Cmd == cell.RelayBeginDir {
		reason = cell.EndNotDirectory
	}
	return h.RefuseStream(m.Stream, cell.End{Reason: reason})
}
