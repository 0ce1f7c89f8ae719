package authority

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// FlagConfig says how the authority assigns flags. Zero fields have C tor's
// defaults; the comments name C tor's options.
type FlagConfig struct {
	GuardFraction    float64       // of relays below the Guard bandwidth: AuthDirVoteGuardBwThresholdFraction, 0.75
	FastGuarantee    uint64        // bytes a second that are always Fast: AuthDirFastGuarantee, 100 kB
	GuardGuarantee   uint64        // bytes a second that are enough for Guard: AuthDirGuardBWGuarantee, 2 MB
	GuardTimeKnown   time.Duration // enough for Guard: AuthDirVoteGuardGuaranteeTimeKnown, 8 days
	GuardWFU         float64       // enough for Guard: AuthDirVoteGuardGuaranteeWFU, 0.98
	StableUptime     time.Duration // enough for Stable: AuthDirVoteStableGuaranteeMinUptime, 30 days; negative: none
	StableMTBF       time.Duration // enough for Stable: AuthDirVoteStableGuaranteeMTBF, 5 days
	MinUptimeHSDir   time.Duration // MinUptimeHidServDirectoryV2, 96 hours; negative: none
	MinMeasured      int           // measured relays from which claims do not count: MinMeasuredBWsForAuthToIgnoreAdvertised, 500
	MaxServersPerIP  int           // AuthDirMaxServersPerAddr, 2; negative: no bound
	MinFast          int64         // bytes a second: TestingMinFastFlagThreshold; default 4 of the parameter FastFlagMinThreshold
	MinThresholdKB   uint64        // relays below it count toward no threshold: 4; TestingMinExitFlagThreshold / 1000
	NoThresholdFloor bool          // MinThresholdKB is 0

	// TestingDirAuthVoteGuard, ...Exit and ...HSDir: relays that get the flag
	// independently of the thresholds.
	VoteGuard, VoteExit, VoteHSDir RelaySet
	// ...IsStrict: no others get it.
	GuardIsStrict, ExitIsStrict, HSDirIsStrict bool

	ListBadExits, ListMiddleOnly bool // vote on BadExit and MiddleOnly
}

// TestingFlags gives every relay the flags that a guard and an onion service
// directory need. Guard alone is not enough: guards must be Stable and Fast too.
// By the thresholds, half of the relays of a new network are not: those that
// started a second later than the others.
func TestingFlags() FlagConfig {
	all := RelaySet{"*"}
	return FlagConfig{NoThresholdFloor: true, MinFast: -1, FastGuarantee: 1, StableUptime: -1, MaxServersPerIP: -1, MinUptimeHSDir: -1, VoteGuard: all, VoteHSDir: all}
}

func (c *FlagConfig) setDefaults() {
	c.GuardFraction = cmp.Or(c.GuardFraction, 0.75)
	c.FastGuarantee = cmp.Or(c.FastGuarantee, 100<<10)
	c.GuardGuarantee = cmp.Or(c.GuardGuarantee, 2<<20)
	c.GuardTimeKnown = cmp.Or(c.GuardTimeKnown, 8*24*time.Hour)
	c.GuardWFU = cmp.Or(c.GuardWFU, 0.98)
	c.StableUptime = cmp.Or(c.StableUptime, 30*24*time.Hour)
	c.StableMTBF = cmp.Or(c.StableMTBF, 5*24*time.Hour)
	c.MinUptimeHSDir = cmp.Or(c.MinUptimeHSDir, 96*time.Hour)
	c.MinMeasured = cmp.Or(c.MinMeasured, 500)
	c.MaxServersPerIP = cmp.Or(c.MaxServersPerIP, 2)
	if !c.NoThresholdFloor {
		c.MinThresholdKB = cmp.Or(c.MinThresholdKB, 4)
	}
}

// minBandwidthKB is the least bandwidth of a useful relay. If an eighth of the
// relays are below a Fast threshold that is less than half of this, a quarter of
// them is used instead (C tor's RELAY_REQUIRED_MIN_BANDWIDTH, 75 kB).
const minBandwidthKB = 75

// maxBelievable caps the bandwidth that a relay claims, in bytes a second (C
// tor's DEFAULT_MAX_BELIEVABLE_BANDWIDTH).
const maxBelievable = 10_000_000

// staleAfter is the age from which a descriptor has the flag StaleDesc.
const staleAfter = 18 * time.Hour

// candidate is a relay in the vote.
type candidate struct {
	of         *relay
	d          *netdoc.RouterDesc
	status     relayStatus
	running    bool
	sybil      bool
	measured   bool
	measuredKB uint32
	creditKB   uint32        // bandwidth that counts for flags
	uptime     time.Duration // as it claims
	seen       time.Duration // as it claims, but no longer than this authority has seen it running
	wasHSDir   bool          // a recent consensus calls it a directory of onion services
	exit       bool          // its policy makes it an exit
	record     record
}

// active reports whether the relay counts for thresholds.
func (c *candidate) active() bool {
	return c.running && !c.status.has(statusInvalid) && !c.d.Hibernating
}

// thresholds are what a relay must reach for its flags.
type thresholds struct {
	stableUptime                     time.Duration
	stableMTBF                       float64
	fastKB                           uint32
	guardWFU, guardTK                float64
	guardWithExitsKB, guardNoExitsKB uint32
	enoughMTBF, ignoreAdvertised     bool
}

// String returns the arguments of a vote's "flag-thresholds" line.
func (t *thresholds) String() string {
	bit := map[bool]int{true: 1}
	return fmt.Sprintf("stable-uptime=%d stable-mtbf=%d fast-speed=%d guard-wfu=%.3f%% guard-tk=%d guard-bw-inc-exits=%d guard-bw-exc-exits=%d enough-mtbf=%d ignoring-advertised-bws=%d",
		int64(t.stableUptime.Seconds()), int64(t.stableMTBF), int64(t.fastKB)*1000, t.guardWFU*100, int64(t.guardTK),
		int64(t.guardWithExitsKB)*1000, int64(t.guardNoExitsKB)*1000, bit[t.enoughMTBF], bit[t.ignoreAdvertised])
}

// nth returns the element at index n after sorting the list; for an empty list,
// zero.
func nth[T cmp.Ordered](list []T, n int) T {
	if len(list) == 0 {
		var zero T
		return zero
	}
	slices.Sort(list)
	return list[min(n, len(list)-1)]
}

// thresholds computes the thresholds from all known relays (dir-spec, "flags", as
// C tor does).
func (c *FlagConfig) thresholds(all []*candidate, enough, ignoreAdvertised bool, params netdoc.Params) thresholds {
	t := thresholds{enoughMTBF: enough, ignoreAdvertised: ignoreAdvertised}
	var uptimes []time.Duration
	var mtbfs, tks []float64
	var bws, bwsNoExits []uint32
	counts := func(r *candidate) bool {
		return r.active() && !r.sybil && uint64(r.creditKB) >= c.MinThresholdKB && (r.measured || !ignoreAdvertised)
	}
	for _, r := range all {
		if !counts(r) {
			continue
		}
		uptimes, mtbfs, tks = append(uptimes, r.uptime), append(mtbfs, r.record.mtbf), append(tks, r.record.tk)
		bws = append(bws, r.creditKB)
		if !r.exit || r.status.has(statusBadExit) {
			bwsNoExits = append(bwsNoExits, r.creditKB)
		}
	}
	n := len(bws)
	t.stableUptime, t.stableMTBF = nth(uptimes, (n-1)/2), nth(mtbfs, (n-1)/2)
	if t.fastKB = nth(bws, n/8); t.fastKB < minBandwidthKB/2 {
		t.fastKB = nth(bws, n/4)
	}
	t.guardWithExitsKB = nth(bws, int(float64(n)*c.GuardFraction))
	t.guardNoExitsKB = nth(bwsNoExits, int(float64(len(bwsNoExits))*c.GuardFraction))
	t.guardTK = min(nth(tks, n/8), c.GuardTimeKnown.Seconds())

	lo := params.Get("FastFlagMinThreshold", 4, 4, 1<<31-1)
	if c.MinFast != 0 {
		lo = int32(max(0, c.MinFast))
	}
	hi := params.Get("FastFlagMaxThreshold", 1<<31-1, lo, 1<<31-1)
	t.fastKB = min(max(t.fastKB, uint32(lo/1000)), uint32(hi/1000), uint32(c.FastGuarantee/1000))

	var wfus []float64 // of relays that are known for long enough
	for _, r := range all {
		if counts(r) && r.record.tk >= t.guardTK {
			wfus = append(wfus, r.record.wfu)
		}
	}
	t.guardWFU = min(nth(wfus, (len(wfus)-1)/2), c.GuardWFU)
	return t
}

// flags returns the flags of a relay.
func (c *FlagConfig) flags(r *candidate, t *thresholds, authority bool, now time.Time) netdoc.Flags {
	var f netdoc.Flags
	set := func(flag netdoc.Flags, on bool) {
		if on {
			f |= flag
		} else {
			f &^= flag
		}
	}
	stable := r.uptime >= t.stableUptime || r.uptime >= c.StableUptime
	if t.enoughMTBF {
		stable = r.record.mtbf >= t.stableMTBF || r.record.mtbf >= c.StableMTBF.Seconds()
	}
	fast := r.creditKB >= t.fastKB
	set(netdoc.FlagAuthority, authority)
	set(netdoc.FlagRunning, r.running)
	set(netdoc.FlagValid, !r.status.has(statusInvalid))
	set(netdoc.FlagExit, r.exit)
	set(netdoc.FlagStable, stable)
	set(netdoc.FlagFast, fast)
	set(netdoc.FlagV2Dir, r.d.TunnelledDir)
	set(netdoc.FlagHSDir, r.d.HSDir && r.d.TunnelledDir && stable && fast && (r.seen >= c.MinUptimeHSDir || r.wasHSDir) && r.active())
	guardBW := uint64(r.creditKB) >= c.GuardGuarantee/1000 || r.creditKB >= min(t.guardWithExitsKB, t.guardNoExitsKB)
	set(netdoc.FlagGuard, fast && stable && r.d.TunnelledDir && guardBW && r.record.wfu >= t.guardWFU && r.record.tk >= t.guardTK)
	set(netdoc.FlagBadExit, c.ListBadExits && r.status.has(statusBadExit))
	set(netdoc.FlagStaleDesc, r.d.Published.Add(staleAfter).Before(now))
	if c.ListMiddleOnly && r.status.has(statusMiddleOnly) {
		set(netdoc.FlagMiddleOnly, true)
		set(netdoc.FlagBadExit, c.ListBadExits)
		f &^= netdoc.FlagExit | netdoc.FlagGuard | netdoc.FlagHSDir | netdoc.FlagV2Dir
	}
	for _, s := range []struct {
		status relayStatus
		flag   netdoc.Flags
	}{{statusStripGuard, netdoc.FlagGuard}, {statusStripHSDir, netdoc.FlagHSDir}, {statusStripV2Dir, netdoc.FlagV2Dir}} {
		if r.status.has(s.status) {
			f &^= s.flag
		}
	}
	for _, v := range []struct {
		set    RelaySet
		strict bool
		flag   netdoc.Flags
	}{{c.VoteExit, c.ExitIsStrict, netdoc.FlagExit}, {c.VoteGuard, c.GuardIsStrict, netdoc.FlagGuard}, {c.VoteHSDir, c.HSDirIsStrict, netdoc.FlagHSDir}} {
		if v.set.Has(r.d) {
			f |= v.flag
		} else if v.strict {
			f &^= v.flag
		}
	}
	if r.sybil { // keep only the flags that warn of it
		f = f&(netdoc.FlagBadExit|netdoc.FlagMiddleOnly|netdoc.FlagStaleDesc) | netdoc.FlagSybil
	}
	return f
}

// knownFlags returns the flags that the authority votes on, in order.
func (c *FlagConfig) knownFlags() []string {
	out := []string{"Authority", "Exit", "Fast", "Guard", "HSDir", "Running", "Stable", "StaleDesc", "Sybil", "V2Dir", "Valid"}
	if c.ListBadExits {
		out = append(out, "BadExit")
	}
	if c.ListMiddleOnly {
		out = append(out, "MiddleOnly")
	}
	slices.Sort(out)
	return out
}

// markSybils marks the relays above the number that one address may have; the
// most useful ones stay unmarked. Only addresses count at which a relay was found
// reachable: otherwise a relay could claim the address of others, and so have them
// marked. six says that IPv6 addresses are tested. A mark does not touch the
// relay's history.
func (c *FlagConfig) markSybils(all []*candidate, authorities map[ident.RSAID]bool, six bool) {
	if c.MaxServersPerIP < 0 {
		return
	}
	byAddr := map[netip.Addr][]*candidate{}
	for _, r := range all {
		if !r.running {
			continue
		}
		byAddr[r.d.Addr] = append(byAddr[r.d.Addr], r)
		if o, ok := orAddr6(r.d); ok && six {
			byAddr[o.Addr()] = append(byAddr[o.Addr()], r)
		}
	}
	rank := map[bool]int{true: -1}
	for _, list := range byAddr {
		slices.SortFunc(list, func(a, b *candidate) int {
			return cmp.Or(rank[authorities[a.d.RSA]]-rank[authorities[b.d.RSA]],
				cmp.Compare(b.creditKB, a.creditKB), slices.Compare(a.d.RSA[:], b.d.RSA[:]))
		})
		for i, r := range list {
			if i >= c.MaxServersPerIP {
				r.sybil = true
			}
		}
	}
}
