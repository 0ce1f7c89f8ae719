//go:build amd64 || arm64

package layer

import "testing"

// Everything again in the portable form, which this machine would not use.
func TestPortable(t *testing.T) {
	if !haveKernel {
		t.Skip("the portable form is what the other tests use here")
	}
	haveKernel = false
	t.Cleanup(func() { haveKernel = true })
	for name, f := range map[string]func(*testing.T){
		"polyval": TestPolyval, "polyval against slow": TestPolyvalAgainstSlow, "AES": TestKernelAES,
		"tweakable cipher": TestCGOTweakableCipher, "PRF": TestCGOPRF, "wide block": TestCGOWideBlock,
		"update": TestCGOUpdate, "relay": TestCGORelay, "relay originate": TestCGORelayOriginate,
		"client originate": TestCGOClientOriginate, "mixed paths": TestMixedPaths, "tampered": TestTampered,
	} {
		t.Run(name, f)
	}
}
