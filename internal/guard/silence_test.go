package guard

import (
	"testing"
	"time"
)

// TestSilence: a guard that is silent counts as unreachable only when that has gone on for as long as the client is patient.
// Pauses in which nobody asked do not count, and an answer ends it.
func TestSilence(t *testing.T) {
	const patience, wait = 2 * time.Minute, 10 * time.Second
	m := start(t, network(1000))
	m.cfg.Patience = patience
	first := primaries(m)[0]
	now := epoch
	// ask says that the guard is silent, or answers.
	ask := func(what string, answers bool, expect reach) {
		t.Helper()
		u := pick(t, m, now)
		want(t, what+": guard", u.g.id, first)
		if now = now.Add(wait); answers {
			u.Succeeded(now)
		} else {
			u.Failed(now, Silent)
		}
		want(t, what, u.g.reach, expect)
	}
	for range patience/wait - 1 {
		ask("silent for less", false, maybe)
	}
	ask("answers", true, yes)
	for range patience/wait - 1 {
		ask("silent again", false, yes)
	}
	now = now.Add(silencePause + 1)
	for range patience/wait - 1 {
		ask("silent after a pause", false, yes)
	}
	now = now.Add(silencePause) // not longer
	late := pick(t, m, now)
	ask("silent for as long", false, no)
	if next := pick(t, m, now); next.g.id == first {
		t.Error("the silent guard is used")
	}
	late.Succeeded(now)
	ask("silent once after an answer", false, yes)

	m.cfg.Patience = 0
	ask("silent once, without patience", false, no)
}

// TestSilenceOfMany: circuits that wait at the same time do not make a silence longer than it is.
func TestSilenceOfMany(t *testing.T) {
	m := start(t, network(1000))
	m.cfg.Patience = 2 * time.Minute
	var us []*Use
	for range 100 {
		us = append(us, pick(t, m, epoch))
	}
	for _, u := range us {
		u.Failed(epoch.Add(time.Minute), Silent)
		want(t, "reach", u.g.reach, maybe)
	}
}
