//go:build !linux

package links

func newClock() clock { return newTimers() }

// Hurry is for Linux.
func Hurry() {}
