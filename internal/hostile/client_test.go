package hostile

import "testing"

// FuzzClientStates has hostile guards and exits do what they like to a client.
func FuzzClientStates(f *testing.F) {
	fuzz(f, clientOps, newClientWorld)
}
