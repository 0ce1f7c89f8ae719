package cbt

import "time"

// Params are the consensus parameters that govern learning (path-spec 2.4.6).
type Params struct {
	Disabled        bool          // cbtdisabled: learn nothing, use InitialTimeout
	NumModes        int           // cbtnummodes
	RecentCount     int           // cbtrecentcount
	MaxTimeouts     int           // cbtmaxtimeouts
	MinCircuits     int           // cbtmincircs
	Quantile        float64       // cbtquantile, as a fraction
	CloseQuantile   float64       // cbtclosequantile, as a fraction
	TestFrequency   time.Duration // cbttestfreq
	MinTimeout      time.Duration // cbtmintimeout
	InitialTimeout  time.Duration // cbtinitialtimeout
	MaxOpenCircuits int           // cbtmaxopencircs
}

// DefaultParams are the values if the consensus sets none.
func DefaultParams() Params {
	return ParamsFrom(func(_ string, def, _, _ int32) int32 { return def })
}

// ParamsFrom reads the parameters through get, which returns the consensus's
// value clamped to [lo, hi], or def.
func ParamsFrom(get func(name string, def, lo, hi int32) int32) Params {
	const maxInt = 1<<31 - 1
	quantile := get("cbtquantile", 80, 10, 99)
	minTimeout := get("cbtmintimeout", 10, 10, maxInt)
	return Params{
		Disabled:        get("cbtdisabled", 0, 0, 1) == 1,
		NumModes:        int(get("cbtnummodes", 10, 1, 20)),
		RecentCount:     int(get("cbtrecentcount", 20, 3, 1000)),
		MaxTimeouts:     int(get("cbtmaxtimeouts", 18, 3, 10000)),
		MinCircuits:     int(get("cbtmincircs", 100, 1, 10000)),
		Quantile:        float64(quantile) / 100,
		CloseQuantile:   float64(max(quantile, get("cbtclosequantile", 99, 10, 99))) / 100,
		TestFrequency:   time.Duration(get("cbttestfreq", 10, 1, maxInt)) * time.Second,
		MinTimeout:      time.Duration(minTimeout) * time.Millisecond,
		InitialTimeout:  time.Duration(max(minTimeout, get("cbtinitialtimeout", 60000, 10, maxInt))) * time.Millisecond,
		MaxOpenCircuits: int(get("cbtmaxopencircs", 10, 0, 14)),
	}
}
