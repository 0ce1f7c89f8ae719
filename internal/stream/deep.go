package stream

// GrowStack gives a goroutine that has just begun the stack that it needs to write a cell to a link: Go begins with 2 kB, doubles
// that three times on the way down through circuit, channel and TLS, and each time walks through all frames that are there. Here
// there are none yet. For a connection that moves a few bytes, this was a tenth of a client's processor time.
func GrowStack() { growStack(0) }

//go:noinline
func growStack(i uint) byte {
	var room [deepStack]byte
	return room[i%deepStack]
}

// deepStack is what a write needs, in bytes.
const deepStack = 7 << 10
