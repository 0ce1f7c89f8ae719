package hostile

import "testing"

// FuzzClientStates has hostile guards and exits do what they like to a client.
func FuzzClientStates(f *testing.F) {
	f.Fuzz(func(t *testing.T, input []byte) { run(t, input, clientOps, newClientWorld) })
}
