package relay

import "iter"

// ConsensusText returns the newest consensus, line by line.
func (r *Relay) ConsensusText() (iter.Seq[string], error) { return r.dirs.ConsensusText() }

// MicrodescText returns the texts of microdescriptors that want names by their digests.
func (r *Relay) MicrodescText(want map[[32]byte]bool) iter.Seq[string] {
	return r.dirs.MicrodescText(want)
}

// OnionDescriptors returns how many descriptors of onion services the relay keeps, and their bytes.
func (r *Relay) OnionDescriptors() (n int, bytes int64) {
	if r.cache == nil {
		return 0, 0
	}
	return r.cache.onions.Held()
}
