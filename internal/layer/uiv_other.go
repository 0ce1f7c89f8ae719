//go:build !amd64 && !arm64

package layer

// kernelForms is empty: only the portable form runs here.
func kernelForms() []form { return nil }
