// Package relay runs a relay of the Tor network, or of a similar network, inside
// a Go program: a guard and middle relay, an exit, or a bridge.
//
//	r, err := relay.New(relay.Config{
//		DataDir:  "/var/lib/myrelay",
//		Nickname: "myrelay",
//		Contact:  "operator@example.com",
//		ORPort:   []string{"192.0.2.1:9001"},
//	})
//
// # Kinds of relays
//
// A relay without an exit policy opens no connections to destinations.
// Config.ExitPolicy makes it an exit: destinations see this machine's address,
// and its operator receives complaints about abuse. Config.Bridge keeps the relay
// out of the network's lists; [Relay.BridgeLines] returns the lines that its
// users need. docs/relays.md is for operators.
//
// # Keys
//
// The keys are the relay's identity, whose reputation grows over weeks. If there
// are none, [New] makes them below "keys" in Config.DataDir, in C tor's formats.
// [MakeKeys] makes them on the machine where the master key is kept offline, and
// [MakeFamilyKey] makes the key of a family of relays.
//
// # Lifecycle
//
// [New] checks the configuration, opens the ports and starts the relay. The relay
// tests whether others can reach its ORPort and then publishes its descriptor;
// [Relay.Status] shows the progress. [Relay.Reload] changes some options while it
// runs. [Relay.Shutdown] lets open circuits end, [Relay.Close] closes them; both
// wait until every goroutine of the relay has ended. [Relay.Done] and [Relay.Err]
// tell whether and why it ended by itself.
//
// # Errors
//
// errors.Is tells an error's kind, such as [ErrConfig]. These functions do not
// report the mistakes of peers: metrics count them ([Relay.WriteMetrics]).
package relay
