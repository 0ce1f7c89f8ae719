package tord

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsclient"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/stream"
)

// Destinations and what programs said to a port are on these lines. They go to controllers alone: never to the log.

// router names a relay as C tor does.
func router(r client.Router) string {
	s := "$" + strings.ToUpper(r.ID.String())
	if r.Name != "" {
		s += "~" + r.Name
	}
	return s
}

func routers(path []client.Router) string {
	hops := make([]string, len(path))
	for i, r := range path {
		hops[i] = router(r)
	}
	return strings.Join(hops, ",")
}

// circuitSteps are the words of CIRC events, and of circuit-status.
var circuitSteps = [...]string{client.CircuitLaunched: "LAUNCHED", client.CircuitExtended: "EXTENDED", client.CircuitBuilt: "BUILT",
	client.CircuitFailed: "FAILED", client.CircuitClosed: "CLOSED", client.CircuitRepurposed: "PURPOSE_CHANGED"}

// purposes are C tor's words.
var purposes = [...]string{client.ForStreams: "GENERAL", client.ForOnions: "HS_VANGUARDS", client.ForDirectory: "GENERAL",
	client.ForSet: "CONFLUX_UNLINKED", client.InSet: "CONFLUX_LINKED", client.ForController: "CONTROLLER"}

// microForm is the time of a circuit.
const microForm = "2006-01-02T15:04:05.000000"

// circuitLine returns a line of circuit-status and the text of a CIRC event (control-spec, "Circuit status changed").
func circuitLine(r *client.CircuitReport) string {
	s := fmt.Sprintf("%d %s", r.ID, circuitSteps[r.Step])
	if len(r.Path) > 0 {
		s += " " + routers(r.Path)
	}
	var flags []string
	switch r.Purpose {
	case client.ForDirectory:
		flags = []string{"ONEHOP_TUNNEL", "IS_INTERNAL"}
	case client.ForOnions:
		flags = []string{"IS_INTERNAL"}
	}
	if flags = append(flags, "NEED_CAPACITY"); r.Stable {
		flags = append(flags, "NEED_UPTIME")
	}
	s += fmt.Sprintf(" BUILD_FLAGS=%s PURPOSE=%s TIME_CREATED=%s", strings.Join(flags, ","), purposes[r.Purpose], r.Created.UTC().Format(microForm))
	switch r.Step {
	case client.CircuitFailed, client.CircuitClosed:
		s += " " + circuitReason(r)
	case client.CircuitRepurposed:
		s += " OLD_PURPOSE=" + purposes[r.Before]
	}
	return s
}

// circuitReason says why a circuit is over. What no word fits is NONE.
func circuitReason(r *client.CircuitReport) string {
	var far *channel.DestroyedError
	switch err := r.Err; {
	case err == nil:
		return "REASON=FINISHED"
	case errors.As(err, &far):
		return "REASON=DESTROYED REMOTE_REASON=" + destroyed(far.Reason)
	case errors.Is(err, client.ErrController), errors.Is(err, context.Canceled):
		return "REASON=REQUESTED"
	case fault.Is(err, fault.Timeout):
		return "REASON=TIMEOUT"
	case fault.Is(err, fault.Protocol):
		return "REASON=TORPROTOCOL"
	case fault.Is(err, fault.Resource):
		return "REASON=RESOURCELIMIT"
	case fault.Is(err, fault.Directory):
		return "REASON=NOPATH"
	case connectFailed(err):
		return "REASON=CONNECTFAILED"
	case r.Step == client.CircuitClosed:
		return "REASON=CHANNEL_CLOSED"
	}
	return "REASON=NONE"
}

func connectFailed(err error) bool {
	var c *channel.ConnectError
	return errors.As(err, &c)
}

// destroyed is a reason in C tor's words.
func destroyed(r cell.DestroyReason) string {
	switch {
	case r == cell.DestroyProtocol:
		return "TORPROTOCOL"
	case r > cell.DestroyNoSuchService:
		return fmt.Sprintf("UNKNOWN_%d", r)
	}
	return r.String()
}

// streamSteps are the words of STREAM events. The first three have others for lookups.
var streamSteps = [...]string{client.StreamNew: "NEW", client.StreamWaits: "CONTROLLER_WAIT", client.StreamSent: "SENTCONNECT",
	client.StreamMapped: "REMAP", client.StreamOpened: "SUCCEEDED", client.StreamDetach: "DETACHED", client.StreamFailed: "FAILED", client.StreamClosed: "CLOSED"}

func streamWord(r *client.StreamReport) string {
	switch {
	case r.Lookup && r.Step == client.StreamNew:
		return "NEWRESOLVE"
	case r.Lookup && r.Step == client.StreamSent:
		return "SENTRESOLVE"
	}
	return streamSteps[r.Step]
}

// streamStatus is a line of stream-status. A stream that waits for something is new, as in C tor.
func streamStatus(r client.StreamReport) string {
	switch r.Step {
	case client.StreamWaits, client.StreamDetach, client.StreamMapped:
		r.Step = client.StreamNew
	}
	return fmt.Sprintf("%d %s %d %s", r.ID, streamWord(&r), r.Circuit, streamTarget(&r))
}

// streamTarget is the destination: a program of this machine may have said anything.
func streamTarget(r *client.StreamReport) string { return oneWord(r.Target()) }

// oneWord replaces what would end a word.
func oneWord(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, s)
}

// protocols are C tor's words for what a program spoke.
var protocols = map[string]string{"socks4": "SOCKS4", "socks5": "SOCKS5", "http": "HTTPCONNECT", "dns": "DNS", "trans": "TRANS"}

// streamLine returns the text of a STREAM event (control-spec, "Stream status changed").
func streamLine(r *client.StreamReport) string {
	s := fmt.Sprintf("%d %s %d %s", r.ID, streamWord(r), r.Circuit, streamTarget(r))
	switch r.Step {
	case client.StreamNew:
		if r.From.Addr.IsValid() {
			s += " SOURCE_ADDR=" + netaddr.PlainPort(r.From.Addr).String()
		}
		if r.Lookup {
			s += " PURPOSE=DNS_REQUEST"
		} else {
			s += " PURPOSE=USER"
		}
	case client.StreamMapped:
		if r.ByExit {
			s += " SOURCE=EXIT"
		} else {
			s += " SOURCE=CACHE"
		}
	case client.StreamFailed, client.StreamClosed, client.StreamDetach:
		s += " " + streamReason(r.Err)
	}
	if r.From.HasAuth {
		s += " SOCKS_USERNAME=" + ctlwire.Quote(r.From.User) + " SOCKS_PASSWORD=" + ctlwire.Quote(r.From.Password)
	}
	if p := protocols[r.From.Protocol]; p != "" {
		s += " CLIENT_PROTOCOL=" + p
	}
	return s
}

// streamReason says why a stream is over.
func streamReason(err error) string {
	var end *stream.EndError
	var dns *net.DNSError
	var by client.ClosedByController
	switch {
	case err == nil:
		return "REASON=DONE"
	case errors.As(err, &by):
		return "REASON=" + endReason(by.EndReason)
	case errors.As(err, &end):
		return "REASON=END REMOTE_REASON=" + endReason(end.Reason)
	case errors.Is(err, hsclient.ErrAddress), errors.As(err, &dns):
		return "REASON=RESOLVEFAILED"
	case fault.Is(err, fault.Timeout), errors.Is(err, context.DeadlineExceeded):
		return "REASON=TIMEOUT"
	case fault.Is(err, fault.Refused):
		return "REASON=EXITPOLICY"
	case fault.Is(err, fault.Closed):
		return "REASON=DESTROY"
	}
	return "REASON=MISC"
}

func endReason(r cell.EndReason) string {
	if r == 0 || r > cell.EndNotDirectory {
		return fmt.Sprintf("UNKNOWN_%d", r)
	}
	return r.String()
}

// linkSteps are the words of ORCONN events.
var linkSteps = [...]string{channel.LinkLaunched: "LAUNCHED", channel.LinkOpened: "CONNECTED", channel.LinkFailed: "FAILED", channel.LinkClosed: "CLOSED"}

// linkLine returns the text of an ORCONN event.
func linkLine(r *channel.LinkReport, name client.Router) string {
	s := router(name) + " " + linkSteps[r.Step]
	switch {
	case r.Step == channel.LinkFailed && fault.Is(r.Err, fault.Timeout):
		s += " REASON=TIMEOUT"
	case r.Step == channel.LinkFailed && errors.Is(r.Err, errRefused):
		s += " REASON=CONNECTREFUSED"
	case r.Step == channel.LinkFailed && fault.Is(r.Err, fault.Protocol):
		s += " REASON=TLS_ERROR"
	case r.Step == channel.LinkFailed:
		s += " REASON=MISC"
	case r.Step == channel.LinkClosed:
		s += " REASON=DONE"
	}
	return fmt.Sprintf("%s ID=%d", s, r.ID)
}

// mappedLine returns the text of an ADDRMAP event. ttl 0: the address stays.
func mappedLine(from, to string, ttl time.Duration, failed bool, streamID uint64) string {
	s := from + " " + to
	if ttl == 0 {
		s += " NEVER"
	} else {
		s += " " + ctlwire.Quote(time.Now().Add(ttl).Format(timeForm))
	}
	if failed {
		s += " error=yes"
	}
	if ttl != 0 {
		s += " EXPIRES=" + ctlwire.Quote(date(time.Now().Add(ttl)))
	}
	s += ` CACHED="NO"`
	if streamID != 0 {
		s += fmt.Sprintf(" STREAMID=%d", streamID)
	}
	return s
}
