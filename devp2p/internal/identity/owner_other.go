//go:build !unix

package identity

// ours has nothing to look at here: a new file has its rights from its folder, as the old one.
func ours(string) error { return nil }
