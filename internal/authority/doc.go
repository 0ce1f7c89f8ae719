// Package authority is a directory authority: it takes relays' descriptors,
// votes about them, computes consensuses with the other authorities, and
// serves them (dir-spec, "directory authority operation").
package authority
