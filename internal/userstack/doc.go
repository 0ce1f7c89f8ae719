// Package userstack carries the connections of a TUN device through a dialler: it is the other end
// of TCP for the programs behind the device, with gVisor's TCP/IP stack in this process.
//
// TCP to any address becomes a stream; the program's connection is open when the stream is.
// One address is a name server, over UDP and TCP. Everything else is refused at once, by a reset
// or an ICMP error, and is sent nowhere: other UDP, ICMP, other protocols. Only Linux has it.
package userstack
