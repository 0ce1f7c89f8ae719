package appearance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// role is what a client of a subject is for.
type role uint8

const (
	asClient  role = iota
	byBridge       // a client that knows the network by two bridges only; it does what the others do
	asService      // a program that has an onion service
	alone          // its subject's lines say how it reaches the network; a program that it has started may do that
)

var roles = []role{asClient, byBridge, asService}

// visited is what happens to an onion service.
func (c *client) visited(ctx context.Context, nw *network) error {
	name, err := hostname(c.serviceDir())
	if err != nil {
		return err
	}
	for range 3 {
		c.mark(markVisit)
		if err := get(ctx, nw.visits, name+":80", "/bytes/20000", 20_000); err != nil {
			return fault.New(fault.KindOf(err), "%s: a visit to its onion service: %w", c.subject.Name, err)
		}
		if err := pause(ctx, 2*pauseBetween); err != nil {
			return err
		}
	}
	return nil
}

// byLuck are features that two clients do not always show.
var byLuck = []string{"cells", "destroy-reasons", "stream-ids", "padding-directory"}

// again makes rows of another role of those that clients have. Its clients are fewer, so that shares and samples
// say little and are left out, and means move more.
func again(prefix, where, of string, from []feature) []feature {
	var out []feature
	for _, f := range from {
		switch r := f.rule.(type) {
		case share, sample:
			continue
		case mean:
			f.rule = mean{Within: r.Within * 3}
		}
		if slices.Contains(byLuck, f.name) {
			continue
		}
		f.name, f.what = prefix+f.name, of+f.what
		if f.where == atGuard {
			f.where = where
		}
		out = append(out, f)
	}
	return out
}

// bridgeFeatures are what a bridge sees, and relays behind it.
func bridgeFeatures() []feature {
	out := again("bridge-", "bridge", "by bridges: ", clientFeatures())
	for i := range out {
		if out[i].name == "bridge-guards" { // there are two, and luck makes no third
			out[i].rule = mean{Within: 0.75}
		}
	}
	return append(out, feature{"bridge-pause", "bridge", "by bridges: seconds from the request for a bridge's descriptor to the one for the consensus, at the start", mean{Within: 0.8}, func(v *view) []string {
		var began time.Time
		for _, q := range v.requests() {
			switch f := form(v, &q); {
			case began.IsZero() && strings.Contains(f, "/tor/server/"):
				began = q.at
			case !began.IsZero() && strings.Contains(f, "/tor/status-vote/"):
				return []string{fmt.Sprintf("%.2f", q.at.Sub(began).Seconds())}
			}
		}
		return nil
	}})
}
