package exit

import (
	"context"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/chivenet/chive/internal/panics"
)

// otherFamily is how long a lookup waits for the addresses of one family when it has some
// of the other: questions about IPv6 often stay without an answer, and clients wait for 10
// seconds only.
const otherFamily = 500 * time.Millisecond

// families returns how many questions addrs asks.
func families(four, six bool) (n int) {
	for _, want := range [2]bool{four, six} {
		if want {
			n++
		}
	}
	return n
}

// addrs looks a name up. six and four say which addresses are wanted.
func (r *resolver) addrs(ctx context.Context, name string, four, six bool) (Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var out Answer
	var errs [2]error
	var got [2]Answer
	open, done := 0, make(chan int, 2)
	for i, want := range [2]bool{four, six} {
		if want {
			open++
			go func() {
				defer panics.Recover(nil, func(err error) { errs[i] = err; done <- i })
				got[i], errs[i] = r.get(ctx, query{canonical(name), [2]dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA}[i]})
				done <- i
			}()
		}
	}
	for late := (<-chan time.Time)(nil); open > 0; {
		select {
		case i := <-done:
			if open--; open > 0 && len(got[i].Addrs) > 0 {
				late = time.After(otherFamily)
			}
		case <-late:
			cancel()
		}
	}
	for _, g := range got {
		out.Addrs = append(out.Addrs, g.Addrs...)
	}
	if len(out.Addrs) > 0 {
		return out, nil
	}
	for _, err := range errs {
		if err != nil {
			return out, err
		}
	}
	return out, errNoName
}
