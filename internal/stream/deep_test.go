package stream

import (
	"runtime/debug"
	"testing"
	"unsafe"
)

// TestGrowStack looks whether a goroutine's stack moves when it calls what needs six kilobytes.
func TestGrowStack(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector makes stacks smaller
	moves := func(begin func()) bool {
		moved := make(chan bool)
		go func() {
			begin()
			var here byte
			at := uintptr(unsafe.Pointer(&here))
			deep(0)
			moved <- at != uintptr(unsafe.Pointer(&here))
		}()
		return <-moved
	}
	if !moves(func() {}) {
		t.Error("a new goroutine has a large stack already")
	}
	if moves(GrowStack) {
		t.Error("the stack was too small")
	}
}

//go:noinline
func deep(i uint) byte {
	var room [6 << 10]byte
	return room[i%uint(len(room))]
}
