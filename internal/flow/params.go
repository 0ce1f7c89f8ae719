// Package flow decides when data may be sent: fixed windows with authenticated
// SENDMEs (tor-spec, "Flow control"; proposal 289), Vegas congestion control and
// XON/XOFF (proposal 324). It has only pure state machines: time is a parameter,
// and nothing blocks. No type is safe for concurrent use.
package flow

import "math"

// Path is the kind of circuit of a sender. The consensus has thresholds for each
// kind.
type Path uint8

// The kinds of path.
const (
	PathExit  Path = iota // three hops to an exit, or to a directory
	PathOnion             // to an onion service, or from one
	PathSBWS              // two hops, of a bandwidth scanner
)

// Thresholds are Vegas's limits for one kind of path, in cells of queue.
type Thresholds struct {
	Alpha int // below it, the window may grow
	Beta  int // above it, the window shrinks
	Gamma int // at or above it, slow start ends
	Delta int // above it, the window is cut to the bandwidth-delay product plus Delta
	SSCap int // window above which slow start slows down (RFC 3742), in cells
}

// Params are the consensus parameters of flow control. Percentages are 0 to
// 100, windows are in cells.
type Params struct {
	SendmeInc int // cc_sendme_inc: cells that one SENDME acknowledges

	CwndInit    int // cc_cwnd_init
	CwndMin     int // cc_cwnd_min
	CwndMax     int // cc_cwnd_max
	CwndInc     int // cc_cwnd_inc: cells by which the window moves
	CwndIncRate int // cc_cwnd_inc_rate: moves in one window
	CwndIncSS   int // cc_cwnd_inc_pct_ss: growth in slow start, percent of SendmeInc
	SSMax       int // cc_ss_max: window at which slow start ends

	FullGap     int  // cc_cwnd_full_gap: SENDMEs below the window that still count as full
	FullMinPct  int  // cc_cwnd_full_minpct: below this the window is not full
	FullPerCwnd bool // cc_cwnd_full_per_cwnd: clear fullness once per window, not once per update

	EWMACwndPct int // cc_ewma_cwnd_pct: samples averaged, percent of a window's updates
	EWMAMax     int // cc_ewma_max: the most samples averaged
	EWMASS      int // cc_ewma_ss: samples in slow start
	RTTResetPct int // cc_rtt_reset_pct: weight of the greater value when the minimum is reset

	Thresholds [3]Thresholds // by Path

	XoffClient   int // cc_xoff_client: cells that a client buffers before XOFF
	XoffExit     int // cc_xoff_exit: the same at an exit
	XonRate      int // cc_xon_rate: cells between two advisory XONs
	XonChangePct int // cc_xon_change_pct: change of rate that is worth an XON
	XonEWMACnt   int // cc_xon_ewma_cnt: samples of the drain rate averaged

	CircWindow int // circwindow: first window of a circuit without congestion control
}

// ParamsFrom reads the parameters through get, which returns a parameter by name,
// clamped to its bounds. Names, defaults and bounds are those of proposal 324,
// section 6.5, as in C tor 0.4.9. There is no cc_alg: the two ends of a hop agree on the
// algorithm, and nobody lowers it for them.
func ParamsFrom(get func(name string, def, min, max int32) int32) Params {
	const big = math.MaxInt32
	i := func(name string, def, min, max int32) int { return int(get(name, def, min, max)) }
	p := Params{
		SendmeInc:    i("cc_sendme_inc", 31, 1, 254),
		CwndInit:     i("cc_cwnd_init", 124, 31, 10000),
		CwndMin:      i("cc_cwnd_min", 124, 31, 1000),
		CwndMax:      i("cc_cwnd_max", big, 500, big),
		CwndInc:      i("cc_cwnd_inc", 1, 1, 1000),
		CwndIncRate:  i("cc_cwnd_inc_rate", 31, 1, 250),
		CwndIncSS:    i("cc_cwnd_inc_pct_ss", 100, 1, 500),
		SSMax:        i("cc_ss_max", 5000, 500, big),
		FullGap:      i("cc_cwnd_full_gap", 4, 0, math.MaxInt16),
		FullMinPct:   i("cc_cwnd_full_minpct", 25, 0, 100),
		FullPerCwnd:  i("cc_cwnd_full_per_cwnd", 1, 0, 1) == 1,
		EWMACwndPct:  i("cc_ewma_cwnd_pct", 50, 1, 255),
		EWMAMax:      i("cc_ewma_max", 10, 2, big),
		EWMASS:       i("cc_ewma_ss", 2, 2, big),
		RTTResetPct:  i("cc_rtt_reset_pct", 100, 0, 100),
		XoffClient:   i("cc_xoff_client", 500, 1, 10000),
		XoffExit:     i("cc_xoff_exit", 500, 1, 10000),
		XonRate:      i("cc_xon_rate", 500, 1, 5000),
		XonChangePct: i("cc_xon_change_pct", 25, 1, 99),
		XonEWMACnt:   i("cc_xon_ewma_cnt", 2, 2, 100),
		CircWindow:   i("circwindow", 1000, 100, 1000),
	}
	// The defaults count queues in units of two TLS records.
	const outbuf, record = 62, 31
	path := func(suffix string, alpha, beta, gamma, delta, cap int32) Thresholds {
		return Thresholds{
			Alpha: i("cc_vegas_alpha_"+suffix, alpha, 0, 1000),
			Beta:  i("cc_vegas_beta_"+suffix, beta, 0, 1000),
			Gamma: i("cc_vegas_gamma_"+suffix, gamma, 0, 1000),
			Delta: i("cc_vegas_delta_"+suffix, delta, 0, big),
			SSCap: i("cc_sscap_"+suffix, cap, 100, big),
		}
	}
	p.Thresholds[PathExit] = path("exit", 3*outbuf, 4*outbuf, 3*outbuf, 5*outbuf, 600)
	p.Thresholds[PathOnion] = path("onion", 3*outbuf, 6*outbuf, 4*outbuf, 7*outbuf, 475)
	p.Thresholds[PathSBWS] = path("sbws", 2*outbuf-record, 2*outbuf+record, 2*outbuf, 4*outbuf, 400)
	return p
}

// DefaultParams returns the parameters of a consensus that sets none.
func DefaultParams() Params {
	return ParamsFrom(func(_ string, def, _, _ int32) int32 { return def })
}

// AcceptIncrement reports whether a SENDME increment that an exit chose in its
// handshake is acceptable: it may differ from the consensus's by at most one
// (proposal 324, section 10.3).
func (p *Params) AcceptIncrement(inc int) bool {
	return inc > 0 && inc >= p.SendmeInc-1 && inc <= p.SendmeInc+1
}
