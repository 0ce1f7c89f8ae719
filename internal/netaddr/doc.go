// Package netaddr owns the rules about addresses: which are public, which
// belong to one machine or one site, which of them are one peer, and which are
// neighbours. It opens nothing and looks nothing up.
//
// One address has many spellings, and whoever compares addresses has to bring
// them to one first:
//
//	Plain        192.0.2.1 for ::ffff:192.0.2.1, and no zone. Every address that
//	             comes from outside passes it before it is compared or kept.
//	Carried      the IPv4 address inside an IPv6 one (6to4, Teredo, NAT64 and
//	             others): packets to the one end at the other. Who refuses an
//	             address refuses all that carry it.
//
// The rules, and who goes by which:
//
//	Public       may be anybody's on the Internet.
//	             client: relays that it connects to, addresses that a program
//	             asks for, addresses that an exit answers with.
//	             relay: whom it extends circuits to, and its own address.
//	             authority: the addresses in a descriptor.
//	             exit: where streams go, and what lookups answer, unless its
//	             operator lets them out to private networks; and which of its
//	             own addresses its policy names.
//	             network files: where authorities and fallbacks are.
//	ExitPrivate  what "private" stands for in an exit policy. This is text that
//	             other programs read and sum up, so it is C tor's list to the
//	             letter. It is another rule than Public: it lacks 100.64.0.0/10
//	             and has all of ::/8, for example.
//	HostName     a name in the letters of host names.
//	             socks: what programs ask for. stream: what exits answer. exit:
//	             what name servers answer.
//	LocalName    a host name that means this machine or this network.
//	             client: names that a program asks for.
//	Peer         an IPv4 address or an IPv6 /64: what one subscriber has.
//	             account, the relay's flood defences, the directory's ports:
//	             who is counted as one.
//	Network      an IPv4 /16 or an IPv6 /48: what one operator may have.
//	             authority: strangers' relays, of which one has so many.
//	SameSubnet   an IPv4 /16 or an IPv6 /32.
//	             netdir and path: relays that must not share a circuit.
//
// A network whose relays have loopback addresses says so (AllowPrivateAddresses
// in its description); there, nobody asks Public.
//
// Public follows the IANA's registries of special-purpose addresses, with these
// differences. Addresses for documentation pass: no machine has one, examples
// and tests use them, and C tor takes them. Multicast and the reserved IPv4
// block are refused, as no stream can go there. So are IPv6 addresses beyond
// 2000::/3, which are not given out, and 192.88.99.0/24, which was.
package netaddr
