package cbt

import "time"

// When a client that looks like C tor's stops waiting for a circuit (C tor 0.4.9.11, circuitstats.c,
// circuit_build_times_handle_completed_hop, and circuituse.c, circuit_expire_building). Its guards see which circuits it
// never uses, and when others take their place. All times are from when the first hop was asked.

// longSlack is added to the scaled timeout of more than three hops: the fourth is often one that other circuits wait for.
const longSlack = time.Second

// LateAtHop reports whether a circuit of at least three hops, of which so many are now built, is late. The timeout is not scaled:
// a circuit of four hops has the time of three to get three.
func (e *Estimator) LateAtHop(built int, took time.Duration) bool {
	return !e.p.Disabled && built <= significantHops && took > e.usage
}

// LateBetween reports whether a circuit that is to have so many hops, of which so many are built, is late while nothing arrives.
// While no timeout is known, none is: it may take until it is given up.
func (e *Estimator) LateBetween(built, hops int, took time.Duration) bool {
	return e.computed && !e.p.Disabled && hops >= significantHops && built <= significantHops && took >= long(e.usage, hops)
}

// GiveUp returns when a circuit of so many hops is given up. One that is late is given up when one of three hops would be, as
// only these are measured.
func (e *Estimator) GiveUp(hops int) time.Duration {
	if hops <= significantHops {
		return scale(e.closing, hops)
	}
	return max(e.closing, long(e.usage, hops))
}

// long scales the usage timeout: more than four hops have the time of four.
func long(usage time.Duration, hops int) time.Duration {
	if hops <= significantHops {
		return usage
	}
	return scale(usage, significantHops+1) + longSlack
}
