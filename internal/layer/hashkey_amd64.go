package layer

// hashKey is a POLYVAL key's powers 8 to 1, and of each the sum of its halves,
// twice, for Karatsuba's method.
type hashKey [16]gf128
