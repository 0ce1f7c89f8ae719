package relay

import "time"

// live has the settings that may change while the relay runs.
type live struct {
	cfg    Config
	family *family
}

// Reload applies the settings that may change while the relay runs: Contact,
// Family and FamilyIDs, Exit, Rate, Burst, Accounting, MaxAdvertisedBandwidth, ShutdownWait and
// MaxMemory; it ignores the other fields of cfg. It also reads again the family
// keys, and the signing key with its certificate. After an error nothing has
// changed.
func (r *Relay) Reload(cfg Config) error {
	next := r.cfg
	next.Contact, next.Family, next.FamilyIDs, next.Exit = cfg.Contact, cfg.Family, cfg.FamilyIDs, cfg.Exit
	next.Accounting = cfg.Accounting
	next.Rate, next.Burst, next.MaxAdvertisedBandwidth, next.ShutdownWait, next.MaxMemory = cfg.Rate, cfg.Burst, cfg.MaxAdvertisedBandwidth, cfg.ShutdownWait, cfg.MaxMemory
	next.MemoryOption, next.MemoryWhy = cfg.MemoryOption, cfg.MemoryWhy
	if err := next.Check(); err != nil {
		return err
	}
	fam, err := loadFamily(r.keys.dir, r.keys.ID.RSA, next.Family, next.FamilyIDs)
	if err != nil {
		return err
	}
	applyExit, err := r.exit.Prepare(next.Exit)
	if err != nil {
		return err
	}
	now := time.Now()
	if err := r.keys.Reread(now); err != nil {
		return err
	}
	applyExit()
	if next.Rate != 0 && !r.limits.on.Load() {
		r.log.Info("the limit of bandwidth holds for links that open from now on")
	}
	r.limits.set(next.Rate, next.Burst, now)
	r.acct.limitBytes(next.Accounting, next.Rate, now)
	r.memory.SetBound(next.linkMemory())
	r.live.Store(&live{cfg: next, family: fam})
	r.renewKeys(now)
	r.publisher.changed()
	return nil
}
