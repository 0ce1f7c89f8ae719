package layer

// hashKey holds the powers 8 to 1 of a POLYVAL key.
type hashKey [8]gf128
