package socks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/stream"
)

func endOf(r cell.EndReason) error { return &stream.EndError{Reason: r} }

func TestReasonOf(t *testing.T) {
	x := errors.New("x")
	for _, tt := range []struct {
		err  error
		want Reason
	}{
		{x, General},
		{Because(OnionIntro, x), OnionIntro},
		{fmt.Errorf("dial: %w", Because(ConnRefused, fault.New(fault.Timeout, "x"))), ConnRefused},
		{fault.New(fault.Network, "begin: %w", endOf(cell.EndExitPolicy)), NotAllowed},
		{endOf(cell.EndResolveFailed), NotFound},
		{endOf(cell.EndConnectRefused), ConnRefused},
		{endOf(cell.EndDone), ConnRefused},
		{endOf(cell.EndTimeout), TimedOut},
		{endOf(cell.EndNoRoute), HostUnreach},
		{endOf(cell.EndTorProtocol), General},
		{endOf(200), General},
		{&net.DNSError{IsNotFound: true}, NotFound},
		{&net.DNSError{IsTimeout: true}, TimedOut},
		{&net.DNSError{}, General},
		{context.DeadlineExceeded, TimedOut},
		{fault.New(fault.Timeout, "x"), TimedOut},
		{fault.New(fault.Refused, "x"), NotAllowed},
		{fault.New(fault.Directory, "x"), NotReady},
	} {
		if got := ReasonOf(tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
	if Because(General, nil) != nil {
		t.Error("nil became an error")
	}
}
