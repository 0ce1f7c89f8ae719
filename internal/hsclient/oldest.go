package hsclient

import "time"

// makeRoom removes the entry that was used the longest ago from a map that has most entries or more.
func makeRoom[K comparable, V any](m map[K]V, most int, used func(V) time.Time, remove func(K)) {
	for len(m) >= most {
		var oldest K
		var at time.Time
		first := true
		for k, v := range m {
			if u := used(v); first || u.Before(at) {
				oldest, at, first = k, u, false
			}
		}
		remove(oldest)
	}
}
