//go:build arm64

package layer

// wideForms returns nothing: this architecture has no registers wider than the
// kernel's.
func wideForms() []form { return nil }
