package tord

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/stream"
)

func TestCircuitLine(t *testing.T) {
	at := time.Date(2026, 11, 28, 1, 2, 3, 4000, time.UTC)
	both := []client.Router{{ID: ident.RSAID{0xaa}, Name: "one"}, {ID: ident.RSAID{0xbb}}}
	const path = "$AA00000000000000000000000000000000000000~one,$BB00000000000000000000000000000000000000"
	const rest = " TIME_CREATED=2026-11-28T01:02:03.000004"
	for _, c := range []struct {
		r    client.CircuitReport
		want string
	}{
		{client.CircuitReport{ID: 7}, "7 LAUNCHED BUILD_FLAGS=NEED_CAPACITY PURPOSE=GENERAL" + rest},
		{client.CircuitReport{ID: 7, Step: client.CircuitExtended, Path: both[:1], Purpose: client.ForDirectory}, "7 EXTENDED " + path[:45] + " BUILD_FLAGS=ONEHOP_TUNNEL,IS_INTERNAL,NEED_CAPACITY PURPOSE=GENERAL" + rest},
		{client.CircuitReport{ID: 7, Step: client.CircuitBuilt, Path: both, Purpose: client.ForOnions, Stable: true}, "7 BUILT " + path + " BUILD_FLAGS=IS_INTERNAL,NEED_CAPACITY,NEED_UPTIME PURPOSE=HS_VANGUARDS" + rest},
		{client.CircuitReport{ID: 7, Step: client.CircuitRepurposed, Purpose: client.InSet, Before: client.ForSet}, "7 PURPOSE_CHANGED BUILD_FLAGS=NEED_CAPACITY PURPOSE=CONFLUX_LINKED" + rest + " OLD_PURPOSE=CONFLUX_UNLINKED"},
	} {
		c.r.Created = at
		if got := circuitLine(&c.r); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "FINISHED"},
		{&channel.DestroyedError{Reason: cell.DestroyResourceLimit}, "DESTROYED REMOTE_REASON=RESOURCELIMIT"},
		{&channel.DestroyedError{Reason: cell.DestroyProtocol}, "DESTROYED REMOTE_REASON=TORPROTOCOL"},
		{&channel.DestroyedError{Reason: 77}, "DESTROYED REMOTE_REASON=UNKNOWN_77"},
		{client.ErrController, "REQUESTED"},
		{fault.New(fault.Timeout, "x"), "TIMEOUT"},
		{&channel.ConnectError{Err: errors.New("x")}, "CONNECTFAILED"},
		{errors.New("x"), "NONE"},
	} {
		if got := circuitReason(&client.CircuitReport{Step: client.CircuitFailed, Err: c.err}); got != "REASON="+c.want {
			t.Errorf("%v: %s", c.err, got)
		}
	}
}

func TestStreamLine(t *testing.T) {
	from := stream.Origin{Addr: netip.MustParseAddrPort("127.0.0.1:99"), Protocol: "socks5", User: "a\"b", Password: "", HasAuth: true}
	for _, c := range []struct {
		r    client.StreamReport
		want string
	}{
		{client.StreamReport{}, "3 NEW 0 x.example:80 PURPOSE=USER"},
		{client.StreamReport{From: from}, `3 NEW 0 x.example:80 SOURCE_ADDR=127.0.0.1:99 PURPOSE=USER SOCKS_USERNAME="a\"b" SOCKS_PASSWORD="" CLIENT_PROTOCOL=SOCKS5`},
		{client.StreamReport{Lookup: true}, "3 NEWRESOLVE 0 x.example:80 PURPOSE=DNS_REQUEST"},
		{client.StreamReport{Lookup: true, Step: client.StreamSent, Circuit: 9}, "3 SENTRESOLVE 9 x.example:80"},
		{client.StreamReport{Step: client.StreamWaits}, "3 CONTROLLER_WAIT 0 x.example:80"},
		{client.StreamReport{Step: client.StreamMapped, Circuit: 9, ByExit: true, Host: "2001:db8::1"}, "3 REMAP 9 [2001:db8::1]:80 SOURCE=EXIT"},
		{client.StreamReport{Step: client.StreamMapped, Host: "two words\r\n"}, "3 REMAP 0 two?words??:80 SOURCE=CACHE"},
		{client.StreamReport{Step: client.StreamOpened, Circuit: 9}, "3 SUCCEEDED 9 x.example:80"},
		{client.StreamReport{Step: client.StreamClosed, Circuit: 9}, "3 CLOSED 9 x.example:80 REASON=DONE"},
		{client.StreamReport{Step: client.StreamDetach, Err: &stream.EndError{Reason: cell.EndExitPolicy}}, "3 DETACHED 0 x.example:80 REASON=END REMOTE_REASON=EXITPOLICY"},
		{client.StreamReport{Step: client.StreamFailed, Err: &stream.EndError{Reason: 99}}, "3 FAILED 0 x.example:80 REASON=END REMOTE_REASON=UNKNOWN_99"},
		{client.StreamReport{Step: client.StreamFailed, Err: context.DeadlineExceeded}, "3 FAILED 0 x.example:80 REASON=TIMEOUT"},
		{client.StreamReport{Step: client.StreamClosed, Err: client.ClosedByController{EndReason: cell.EndMisc}}, "3 CLOSED 0 x.example:80 REASON=MISC"},
	} {
		c.r.ID, c.r.Port = 3, 80
		if c.r.Host == "" {
			c.r.Host = "x.example"
		}
		if got := streamLine(&c.r); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if got := streamStatus(client.StreamReport{ID: 3, Step: client.StreamWaits, Host: "h", Port: 1}); got != "3 NEW 0 h:1" {
		t.Error(got)
	}
}

func TestLinkLine(t *testing.T) {
	name := client.Router{ID: ident.RSAID{1}, Name: "r"}
	for _, c := range []struct {
		r    channel.LinkReport
		want string
	}{
		{channel.LinkReport{ID: 4}, "LAUNCHED ID=4"},
		{channel.LinkReport{ID: 4, Step: channel.LinkOpened}, "CONNECTED ID=4"},
		{channel.LinkReport{ID: 4, Step: channel.LinkFailed, Err: errRefused}, "FAILED REASON=CONNECTREFUSED ID=4"},
		{channel.LinkReport{ID: 4, Step: channel.LinkFailed, Err: fault.New(fault.Timeout, "x")}, "FAILED REASON=TIMEOUT ID=4"},
		{channel.LinkReport{ID: 4, Step: channel.LinkClosed}, "CLOSED REASON=DONE ID=4"},
	} {
		if got := linkLine(&c.r, name); got != "$0100000000000000000000000000000000000000~r "+c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
