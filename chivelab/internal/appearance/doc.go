// Package appearance judges whether a client of Chive looks like one of C tor to those that see it: the wire, the
// guard, and the relays behind it.
//
// A private network has authorities of C tor and relays of this process, which look to clients like any relay and
// record every cell of a client's link, and every message that they recognise. Before each relay stands a recorder
// of TCP, which reads the first message of TLS and the sizes of records. Clients of both programs do the same
// script of use, each from a loopback address of its own. Then rows of a table compare what was seen, each by a
// rule of its own. Nothing in the programs under test is changed.
package appearance
