package scale

import "testing"

// TestShare compares the index with what is computed by hand.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		moved        []int64
		jain, spread float64
	}{{[]int64{7, 7, 7}, 1, 1}, {[]int64{1, 3}, 0.8, 3}, {[]int64{4, 0}, 0.5, 4}} {
		if _, jain, spread := share(c.moved, 1); jain < c.jain-1e-9 || jain > c.jain+1e-9 || spread != c.spread {
			t.Errorf("%d: Jain's index %v, spread %v", c.moved, jain, spread)
		}
	}
	if rate, _, _ := share([]int64{1000, 1000}, 2); rate < 0.5139 || rate > 0.5141 { // cells of 514 bytes
		t.Errorf("%v MB/s", rate)
	}
}
