// Package netaddr owns the rules about addresses: which addresses are public,
// which belong to one machine or one site, which count as one peer, and which are
// neighbours. It opens no connection and resolves no name.
//
// One address has many forms, so bring addresses to one form before you compare
// them:
//
//	Plain        192.0.2.1 for ::ffff:192.0.2.1, and no zone. Apply it to every
//	             address from outside before you compare or keep it.
//	Carried      the IPv4 address inside an IPv6 one (6to4, Teredo, NAT64 and
//	             others): packets to the IPv6 address end at the IPv4 address. A
//	             rule that refuses an address also refuses all that carry it.
//
// The rules and their users:
//
//	Public       an address that any host on the Internet may have.
//	             client: relays that it connects to, addresses that a program
//	             asks for, addresses in an exit's answers.
//	             relay: targets of extends, and its own address.
//	             authority: the addresses in a descriptor.
//	             exit: destinations of streams and answers of lookups, unless
//	             the operator allows private networks; and which of its own
//	             addresses its policy names.
//	             network files: addresses of authorities and fallbacks.
//	ExitPrivate  the meaning of "private" in an exit policy. This is text that
//	             other programs read and summarise, so it is exactly C tor's
//	             list. It differs from Public: it does not have 100.64.0.0/10
//	             and has all of ::/8, for example.
//	HostName     a name that has only characters of host names.
//	             socks: names that programs ask for. stream: names in answers of
//	             exits. exit: names in answers of name servers.
//	LocalName    a host name that means this machine or this network.
//	             client: names that a program asks for.
//	Peer         an IPv4 address or an IPv6 /64: the addresses of one subscriber.
//	             account, the relay's flood defences, the directory's ports:
//	             what counts as one peer.
//	Network      an IPv4 /16 or an IPv6 /48: the addresses of one operator.
//	             authority: the number of unknown relays in one network.
//	SameSubnet   an IPv4 /16 or an IPv6 /32.
//	             netdir and path: relays that must not share a circuit.
//
// In a network whose relays have loopback addresses (AllowPrivateAddresses in its
// description), no part of Chive applies Public.
//
// Public follows the IANA's registries of special-purpose addresses, with these
// differences. Addresses for documentation are allowed: no machine has one,
// examples and tests use them, and C tor allows them. Multicast and the reserved
// IPv4 block are refused, because no stream can go there. IPv6 addresses outside
// 2000::/3 are refused, because they are not assigned, and so is 192.88.99.0/24,
// which was assigned in the past.
package netaddr
