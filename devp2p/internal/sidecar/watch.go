package sidecar

import "time"

// How the node's process is watched.
const (
	// watchEvery is the time between two looks at its sockets. A question to a name server is
	// over sooner, and so is seen only by chance; one that comes again and again is seen.
	watchEvery = 250 * time.Millisecond
	// watchFor is how long a client whose flags are not known is watched before it counts as
	// private: clients look for addresses and names when they start, and some each half minute.
	watchFor = time.Minute
)

// watched is what was seen of the node's process since it was first looked at. What leaked once counts until
// the process ends: nobody knows when it will do so again.
type watched struct {
	proc  *process // nil: none was seen
	since time.Time
}

// add notes a look. It reports whether that shows something new.
func (w *watched) add(p *process) (news bool) {
	if w.proc == nil || w.proc.started != p.started {
		*w = watched{p, time.Now()}
		return true
	}
	before := len(w.proc.sockets)
	p.merge(w.proc.sockets)
	w.proc = p
	return len(p.sockets) > before
}

// see looks for the process that answers, and at it.
func (s *Sidecar) see(st *state, v *view) {
	v.enough = s.cfg.watchFor
	p, err := s.cfg.process(s.at)
	if err != nil {
		s.cfg.Log.Debug("sidecar: the node's process cannot be seen", "err", err)
		return
	}
	_ = st.watched.add(p) // what is new is judged now
	v.proc, v.watched = p, time.Since(st.watched.since)
}

// watch looks at the process again. It reports whether an onion that is open has to be judged anew.
func (s *Sidecar) watch(st *state) bool {
	if !s.cfg.OnlyOnion || st.admin == nil || st.watched.proc == nil {
		return false
	}
	p, err := st.watched.proc.again()
	if err != nil {
		return false // it has ended, or is somebody else's: the next step looks for it
	}
	return st.watched.add(p) && st.session != nil
}
