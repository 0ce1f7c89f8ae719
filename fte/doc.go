// Package fte carries byte streams in formats: every message looks like a word
// of a regular language that the user chooses (format-transforming encryption;
// Dyer, Coull, Ristenpart, Shrimpton, "Protocol misidentification made easy
// with format-transforming encryption", CCS 2013). Nothing here knows of Tor.
//
// # Protocols
//
//   - [Protocol] is Chive's own (docs/spec/fte.md): a key for each server,
//     forward secrecy, every byte inside the language.
//   - [Classic] is fteproxy's, byte for byte: a shared key, words at the start
//     of each cell, raw ciphertext behind them. Use it to talk to fteproxy.
//
// Both give a [Transport]: its client side makes a [Conn] of a connection, and a
// [Listener] accepts connections of its server side. Both are as package net's.
// [HTTPDialer] and [HTTPServer] carry Protocol inside HTTP, and [Proxy] forwards
// between two sides.
//
// # Formats
//
// [NewFormat] makes a format of a regular expression, which package fte/lang
// describes. [Release] returns fteproxy's named formats, and [ReadDefinitions] reads
// others.
//
// # What it protects
//
// A program that judges traffic by patterns sees the language. Lengths, times and the
// volume of traffic still look like those of the stream inside, as far as
// Protocol.Shape leaves them. A peer that cannot prove what it knows gets silence, or
// the decoy of [ListenConfig].
//
// # Lifecycle
//
// [NewListener] starts a listener. [Listener.Close] closes what Accept has not
// returned; connections that it has returned go on until they are closed. The
// handshake runs when a Conn first reads or writes, or by [Conn.HandshakeContext].
//
// # Errors
//
// errors.Is tells an error's kind: [ErrConfig] for a format or a key that cannot be
// used, [ErrProtocol] for a peer that speaks something else, [ErrResource] where a
// bound was reached. Ends of streams are io.EOF and io.ErrUnexpectedEOF.
package fte
