// Package relay runs a relay of the Tor network, or of one like it, inside a Go
// program: a guard and middle relay, an exit, or a bridge.
//
//	r, err := relay.New(relay.Config{
//		DataDir:  "/var/lib/myrelay",
//		Nickname: "myrelay",
//		Contact:  "operator@example.com",
//		ORPort:   []string{"9001"},
//	})
//
// # Kinds of relays
//
// A relay without an exit policy lets no stream out. Config.ExitPolicy makes it an
// exit: destinations see this machine's address, and its operator gets their
// complaints. Config.Bridge keeps the relay out of the network's lists;
// [Relay.BridgeLines] returns what its users need. docs/relays.md is for operators.
//
// # Keys
//
// The keys are the relay's identity, with a reputation that grows over weeks. [New]
// makes them below "keys" in Config.DataDir, in C tor's formats, when there are none.
// [MakeKeys] makes them where the master key is kept offline, and [MakeFamilyKey]
// makes the key of a family of relays.
//
// # Lifecycle
//
// [New] checks the configuration, opens the ports and starts the relay. The relay
// tests by itself whether others reach its ORPort and then publishes its descriptor:
// [Relay.Status] says how far it is. [Relay.Reload] changes some options while it
// runs. [Relay.Shutdown] lets open circuits end, [Relay.Close] cuts them; both wait
// until no goroutine of the relay is left. [Relay.Done] and [Relay.Err] tell that it
// ended by itself, and why.
//
// # Errors
//
// errors.Is tells an error's kind, such as [ErrConfig]. What peers do wrong is no
// error of these functions: it is counted ([Relay.WriteMetrics]).
package relay
