package hostile

import "testing"

// FuzzAuthorityStates has strangers and a hostile authority do what they like to
// two honest ones.
func FuzzAuthorityStates(f *testing.F) {
	fuzz(f, authOps, newAuthWorld, makeAuthNet)
}

// authSeeds are requests and uploads as they should be, and votes in time.
func authSeeds() map[string]fuzzInput {
	s := func(all ...do) fuzzInput { return seed(authOps, all...) }
	return map[string]fuzzInput{
		"get":             s(do{"wait", 3, 0, 0}, do{"get", 0, 0, 1}, do{"read", 0, 11, 0}, do{"get", 5, 2, 0}, do{"get", 2, 6, 0}, do{"read", 2, 5, 5}),
		"descriptors":     s(do{"post", 0, 0, 0}, do{"post", 5, 4, 0}, do{"wait", 6, 0, 0}, do{"get", 2, 4, 0}, do{"read", 2, 17, 17}, do{"post", 0, 3, 0x30}, do{"wait", 6, 0, 0}),
		"attack-no-relay": s(do{"get", 0, 5, 0}, do{"get", 5, 5, 0}), // which once worked
		"half":            s(do{"post", 0, 0, 8}, do{"more", 0, 100, 0}, do{"wait", 4, 0, 0}, do{"more", 0, 255, 0}, do{"end", 0, 0, 0}),
		"vote":            s(do{"wait", 3, 0, 0}, do{"wait", 6, 0, 0}, do{"vote", 0, 0, 0}, do{"vote", 5, 0, 0}, do{"wait", 4, 0, 0}, do{"vote", 0, 0, 0}, do{"signature", 0, 0, 0}, do{"wait", 5, 0, 0}),
		"signature":       s(do{"wait", 6, 0, 0}, do{"signature", 0, 0, 0}, do{"signature", 5, 4, 2}, do{"wait", 2, 0, 0}, do{"signature", 0, 5, 0}),
		"peer":            s(do{"script", 1, 0, 0}, do{"wait", 6, 0, 0}, do{"script", 3, 0, 0}, do{"wait", 6, 0, 0}, do{"end", 1, 0, 0}, do{"script", 2, 0, 0}, do{"wait", 6, 0, 0}),
		"crowd":           s(do{"crowd", 0, 8, 9}, do{"honest", 0, 0, 0}, do{"wait", 3, 0, 0}, do{"honest", 1, 0, 0}, do{"get", 1, 0, 0}),
		// What compresses belongs to the process, and serves several worlds.
		"packed":       s(do{"get", 0, 2, 1}, do{"read", 0, 0, 0}, do{"get", 0, 2, 8}, do{"read", 0, 0, 0}),
		"packed-again": s(do{"get", 4, 2, 1}, do{"read", 0, 0, 0}, do{"get", 4, 2, 8}, do{"read", 0, 0, 0}),
		"unread":       s(do{"wait", 3, 0, 0}, do{"get", 0, 1, 0}, do{"get", 1, 1, 0}, do{"get", 2, 1, 0}, do{"wait", 10, 0, 0}, do{"read", 0, 0, 0}),
	}
}
