// Package lang turns regular expressions into languages that carry bytes.
//
// A [Language] is a minimal automaton. Two codings map bytes to its words:
//
//   - [Slice] numbers the words of one exact length, in lexicographic order
//     (Goldberg and Sipser, "Compression and ranking", STOC 1985). It is exact,
//     and byte for byte what fteproxy puts on the wire.
//   - [Encoder] and [Decoder] stream bytes through the automaton as a range
//     coder, for words of any length; every symbol is near-uniform.
//
// The syntax of patterns is described at [Compile]. Patterns work on bytes, not
// on runes, and always describe whole words.
package lang
