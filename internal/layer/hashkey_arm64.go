package layer

// hashKey is a POLYVAL key's powers 8 to 1.
type hashKey [8]gf128
