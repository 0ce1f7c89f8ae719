package layer

// hashKey holds the powers 8 to 1 of a POLYVAL key, and for each power the sum of
// its halves, twice, for Karatsuba's method.
type hashKey [16]gf128
