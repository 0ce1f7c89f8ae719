// Package fte carries byte streams in formats: every message looks like a word
// of a regular language that the user chooses (format-transforming encryption;
// Dyer, Coull, Ristenpart, Shrimpton, "Protocol misidentification made easy
// with format-transforming encryption", CCS 2013).
//
// [Classic] is fteproxy's protocol, byte for byte, as a net.Conn; [Listener]
// and [Proxy] accept and carry connections of any [Transport]. The languages
// are package fte/lang's; fte/formats has fteproxy's named ones. Nothing here
// knows of Tor.
package fte
