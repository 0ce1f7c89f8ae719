package exit

import (
	"cmp"
	"sync/atomic"
	"time"
)

const (
	dnsTimeout  = 5 // seconds
	dnsAttempts = 3
)

// lookupTerms is how long a name server has for an answer, and how often servers are asked.
// The zero lookupTerms has the defaults.
type lookupTerms struct {
	seconds, attempts atomic.Int32
}

func (t *lookupTerms) get() (timeout time.Duration, attempts int) {
	return time.Duration(cmp.Or(t.seconds.Load(), dnsTimeout)) * time.Second, int(cmp.Or(t.attempts.Load(), dnsAttempts))
}

// SetLookups takes what the consensus says about lookups of names (param-spec); param is
// netdir.Directory.Param. C tor counts whole seconds, one at least.
func (e *Exit) SetLookups(param func(name string, def, lo, hi int32) int32) {
	e.lookups.seconds.Store(max(1, param("exit_dns_timeout", dnsTimeout*1000, 1, 120000)/1000))
	e.lookups.attempts.Store(max(1, param("exit_dns_num_attempts", dnsAttempts, 0, 255)))
}
