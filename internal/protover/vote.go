package protover

// Vote returns the versions that at least threshold of the sets have.
// Authorities use it to agree on recommended and required versions (dir-spec,
// "recommended-client-protocols" and similar lines).
func Vote(sets []Set, threshold int) Set {
	counts := map[string]*[maxVersion + 1]int{}
	for _, s := range sets {
		for name, mask := range s.m {
			c := counts[name]
			if c == nil {
				c = new([maxVersion + 1]int)
				counts[name] = c
			}
			for v := range c {
				if mask&(1<<v) != 0 {
					c[v]++
				}
			}
		}
	}
	out := Set{map[string]uint64{}}
	for name, c := range counts {
		for v, n := range c {
			if n > 0 && n >= threshold {
				out.m[name] |= 1 << v
			}
		}
	}
	return out
}
