package guard

import "time"

// Params are the consensus parameters of guard-spec (appendix PARAM_VALS) and
// of path-spec 7.4.
type Params struct {
	MaxSampleThreshold float64 // fraction of the listed guards that the sample may hold
	MaxSampleSize      int
	MinFilteredSample  int
	Lifetime           time.Duration // of a guard that was never confirmed
	ConfirmedLifetime  time.Duration // of a guard that was confirmed, since then
	RemoveUnlisted     time.Duration
	Primary            int // size of the primary list
	UsePrimary         int // primary guards to choose among, for traffic
	UsePrimaryDir      int // the same, for directory requests
	InternetDown       time.Duration
	ConnectTimeout     time.Duration // of a circuit through a guard that is not primary
	IdleTimeout        time.Duration // of a circuit that waits for a better guard
	Meaningful         float64       // below this fraction of usable guards, the configuration gets a sample of its own
	Extreme            float64       // below this fraction, a warning is logged
	Bias               BiasParams
}

// BiasParams govern the detection of route manipulation by guards.
type BiasParams struct {
	MinCircs, MinUse              float64 // counts needed before rates are checked
	Notice, Warn, Extreme         float64 // success rates of building circuits
	NoticeUse, ExtremeUse         float64 // success rates of using circuits
	Drop                          bool    // disable a guard below Extreme or ExtremeUse
	ScaleCircs, ScaleUse, ScaleBy float64 // above this many, multiply by ScaleBy
}

// DefaultParams are the values if the consensus sets none.
func DefaultParams() Params {
	return ParamsFrom(func(_ string, def, _, _ int32) int32 { return def })
}

// ParamsFrom reads the parameters through get, which returns the consensus's
// value clamped to [lo, hi], or def.
func ParamsFrom(get func(name string, def, lo, hi int32) int32) Params {
	const maxInt = 1<<31 - 1
	days := func(name string, def int32) time.Duration {
		return time.Duration(get(name, def, 1, 3650)) * 24 * time.Hour
	}
	seconds := func(name string, def int32) time.Duration {
		return time.Duration(get(name, def, 1, maxInt)) * time.Second
	}
	count := func(name string, def int32) int { return int(get(name, def, 1, maxInt)) }
	pct := func(name string, def, lo int32) float64 { return float64(get(name, def, lo, 100)) / 100 }
	return Params{
		MaxSampleThreshold: pct("guard-max-sample-threshold-percent", 20, 1),
		MaxSampleSize:      count("guard-max-sample-size", 60),
		MinFilteredSample:  count("guard-min-filtered-sample-size", 20),
		Lifetime:           days("guard-lifetime-days", 120),
		ConfirmedLifetime:  days("guard-confirmed-min-lifetime-days", 60),
		RemoveUnlisted:     days("guard-remove-unlisted-guards-after-days", 20),
		Primary:            count("guard-n-primary-guards", 3),
		UsePrimary:         count("guard-n-primary-guards-to-use", 1),
		UsePrimaryDir:      count("guard-n-primary-dir-guards-to-use", 3),
		InternetDown:       seconds("guard-internet-likely-down-interval", 600),
		ConnectTimeout:     seconds("guard-nonprimary-guard-connect-timeout", 15),
		IdleTimeout:        seconds("guard-nonprimary-guard-idle-timeout", 600),
		Meaningful:         pct("guard-meaningful-restriction-percent", 20, 1),
		Extreme:            pct("guard-extreme-restriction-percent", 1, 1),
		Bias: BiasParams{
			MinCircs:   float64(get("pb_mincircs", 150, 5, maxInt)),
			MinUse:     float64(get("pb_minuse", 20, 3, maxInt)),
			Notice:     pct("pb_noticepct", 70, 0),
			Warn:       pct("pb_warnpct", 50, 0),
			Extreme:    pct("pb_extremepct", 30, 0),
			NoticeUse:  pct("pb_noticeusepct", 80, 3),
			ExtremeUse: pct("pb_extremeusepct", 60, 3),
			Drop:       get("pb_dropguards", 0, 0, 1) == 1,
			ScaleCircs: float64(get("pb_scalecircs", 300, 10, maxInt)),
			ScaleUse:   float64(get("pb_scaleuse", 100, 10, maxInt)),
			ScaleBy:    scaleBy(get("pb_multfactor", 1, 1, maxInt), get("pb_scalefactor", 2, 2, maxInt)),
		},
	}
}

// scaleBy is mult/div, never above 1: if scaling made counts grow, they would be
// scaled again without end.
func scaleBy(mult, div int32) float64 { return min(1, float64(mult)/float64(div)) }

// apply returns p with the values that the configuration sets.
func (cfg *Config) apply(p Params) Params {
	if cfg.NumTraffic > 0 {
		p.UsePrimary = cfg.NumTraffic
	}
	if cfg.NumDirectory > 0 {
		p.UsePrimaryDir = cfg.NumDirectory
	}
	p.Primary = max(p.Primary, p.UsePrimary, p.UsePrimaryDir)
	return p
}
