package peers

import "time"

// backoff returns the wait after a number of failures in a row: it doubles from least to
// most, and differs by up to a quarter, so that nodes that failed together are not
// dialled together. coin is a random number below 1.
func backoff(failures int, least, most time.Duration, coin float64) time.Duration {
	d := least
	for range failures - 1 {
		if d *= 2; d >= most {
			break
		}
	}
	d = min(d, most)
	return d + time.Duration((coin-0.5)/2*float64(d))
}
