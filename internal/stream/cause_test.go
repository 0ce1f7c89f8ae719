package stream

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// TestStandardAnswers: a program that knows net.Dialer's errors understands an
// exit's, and a destination that refuses is no policy.
func TestStandardAnswers(t *testing.T) {
	all := []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EHOSTUNREACH, syscall.ETIMEDOUT}
	for reason, want := range map[cell.EndReason]struct {
		err  error // nil: none of all
		kind fault.Kind
	}{
		cell.EndConnectRefused: {syscall.ECONNREFUSED, fault.Network},
		cell.EndConnReset:      {syscall.ECONNRESET, fault.Network},
		cell.EndNoRoute:        {syscall.EHOSTUNREACH, fault.Network},
		cell.EndTimeout:        {syscall.ETIMEDOUT, fault.Timeout},
		cell.EndResolveFailed:  {nil, fault.Network},
		cell.EndExitPolicy:     {nil, fault.Refused},
		cell.EndResourceLimit:  {nil, fault.Resource},
		cell.EndTorProtocol:    {nil, fault.Protocol},
	} {
		err := fmt.Errorf("dial: %w", fault.New(endKind(reason), "%w", &EndError{Reason: reason}))
		for _, target := range all {
			if errors.Is(err, target) != (target == want.err) {
				t.Errorf("%v is %v: %v", reason, target, errors.Is(err, target))
			}
		}
		// Onion services end streams, too, and no exit takes part then.
		if strings.Contains(err.Error(), "the exit") {
			t.Errorf("it names an exit: %v", err)
		}
		if !errors.Is(err, want.kind) {
			t.Errorf("%v is not %v", reason, want.kind)
		}
		var dns *net.DNSError
		if errors.As(err, &dns) != (reason == cell.EndResolveFailed) || dns != nil && !dns.IsNotFound {
			t.Errorf("%v as a *net.DNSError: %v", reason, dns)
		}
		if errors.As(fault.New(endKind(reason), "%w", &EndError{Reason: reason, Lookup: true}), &dns) && (dns.IsNotFound || !dns.IsTemporary) {
			t.Errorf("%v of a lookup as a *net.DNSError: %+v", reason, dns)
		}
		var end *EndError
		if !errors.As(err, &end) || end.Reason != reason {
			t.Errorf("%v is lost", reason)
		}
	}
}
