package hostile

import "time"

// Values of arguments; an argument, modulo the length, is an index. Honest values
// come first, and neighbours are similar.
var (
	waits = []time.Duration{
		time.Millisecond, 50 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 9 * time.Second, 11 * time.Second,
		29 * time.Second, 31 * time.Second, 59 * time.Second, 61 * time.Second, 3 * time.Minute, 10 * time.Minute, time.Hour,
	}
	counts  = []int{1, 2, 3, 5, 9, 31, 49, 50, 51, 60, 99, 100, 101, 200, 499, 501, 520, 1001}
	streams = []uint16{1, 2, 3, 4, 0x7fff, 0xffff, 0}
	// lengths are lengths of bodies, both in headers and real ones.
	lengths = []int{1, 100, 0, 2, 20, 255, 487, 488, 489, 490, 491, 498, 499, 509, 65535}
)

func pick[T any](from []T, i byte) T { return from[int(i)%len(from)] }
