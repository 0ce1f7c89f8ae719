//go:build !amd64 && !arm64

package layer

// kernelForms returns nothing: only the portable form runs on this
// architecture.
func kernelForms() []form { return nil }
