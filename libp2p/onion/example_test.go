package onion_test

import (
	"context"
	"fmt"
	"log"

	libp2p "github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/libp2p/onion"
)

// A host that is reached by its onion, and has no other way out.
func Example() {
	ctx := context.Background()
	client, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	key, err := chive.NewOnionKey() // keep its Text, to have the same onion the next time
	if err != nil {
		log.Fatal(err)
	}
	addr, err := onion.ListenAddr(key, 4001)
	if err != nil {
		log.Fatal(err)
	}
	h, err := onion.NewHost(client, onion.Config{Onion: chive.OnionConfig{Key: key}}, libp2p.ListenAddrs(addr))
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close()
	h.SetStreamHandler("/hello/1", func(s network.Stream) {
		fmt.Fprintln(s, "hello")
		s.Close()
	})
	if err := onion.WaitPublished(ctx, h); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s/p2p/%s\n", addr, h.ID()) // what a peer dials
}

// A host of libp2p.New gets the transport as an option. Its other habits stay: it asks
// name servers, for example, if a peer tells an address with a name.
func ExampleNew() {
	client, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	h, err := libp2p.New(libp2p.NoListenAddrs, libp2p.Transport(onion.New(client, onion.Config{})))
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close()
	to, err := peer.AddrInfoFromString("/onion3/vww6ybal4bd7szmgncyruucpgfkqahzddi37ktceo3ah7ngmcopnpyyd:4001/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN")
	if err != nil {
		log.Fatal(err)
	}
	if err := h.Connect(context.Background(), *to); err != nil {
		log.Fatal(err)
	}
}
