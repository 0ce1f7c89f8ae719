// Package fte sends byte streams as text of a format: every message looks like a
// word of a regular language that the user chooses (format-transforming
// encryption; Dyer, Coull, Ristenpart, Shrimpton, "Protocol misidentification
// made easy with format-transforming encryption", CCS 2013).
//
// There are two protocols, both as a net.Conn, a net.Listener and a Proxy:
//
//   - [Classic] is fteproxy's, byte for byte: a shared key, words at the start
//     of each cell, raw ciphertext behind them.
//   - [Protocol] is Chive's own (docs/spec/fte.md): a key for each server,
//     forward secrecy, every byte inside the language.
//
// The languages are package fte/lang's; [Release] returns fteproxy's named formats.
// This package knows nothing about Tor.
package fte
