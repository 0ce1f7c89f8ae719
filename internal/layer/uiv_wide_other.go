//go:build arm64

package layer

// wideForms is empty: no registers wider than the kernel's are used here.
func wideForms() []form { return nil }
