// Package page serves one page for a browser of this machine: what a network of the laboratory, or
// a client, does at this moment. Its files are embedded, and it loads nothing from elsewhere.
//
// It knows neither networks nor clients: a Config has functions that tell, and the types of State
// say what can be told. No name of a destination has a place in them.
//
// The figures are read while somebody looks, and only then: the first reader starts one goroutine
// that asks each second and hears of events, the last one ends it. All readers get the same bytes. A
// reader that does not read is dropped.
//
// Loopback is no fence: see package localhttp, whose guard refuses a foreign Host and Origin. Besides,
// every path begins with a token that only the start of the program has told.
package page
