// Package authority is a directory authority: it receives relays' descriptors,
// votes on them, computes consensuses with the other authorities, and serves them
// (dir-spec, "directory authority operation").
package authority
