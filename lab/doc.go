// Package lab runs whole onion networks on loopback: directory authorities,
// relays, exits, bridges, a client with a SOCKS port, and a target to fetch from. They
// are for tests, for measurements, and for a first look; nothing leaves the
// machine.
//
//	nw, err := lab.Start(ctx, lab.Options{})
//	...
//	defer nw.Close()
//	conn, err := nw.Client.DialContext(ctx, "tcp", nw.Echo)
//
// Network.Add starts more nodes while the network runs, and Network.WaitListed waits
// until clients can use them.
//
// Every node runs in this process; with Options.Processes each has one of
// its own. Nodes of stock C tor can be mixed in.
package lab
