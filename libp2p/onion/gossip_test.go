package onion_test

import (
	"context"
	"fmt"
	"testing"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/host"
)

// gossip has three hosts publish on one topic. The first and the last are not connected, so
// that their messages go over the second: each must have all of them.
func gossip(t *testing.T, ctx context.Context, a, b, c host.Host) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends what follows
	for _, end := range []host.Host{a, c} {
		if err := end.Connect(ctx, info(b)); err != nil {
			t.Fatal(err)
		}
	}
	hosts := []host.Host{a, b, c}
	topics, in := make([]*pubsub.Topic, len(hosts)), make([]*pubsub.Subscription, len(hosts))
	for i, h := range hosts {
		ps, err := pubsub.NewGossipSub(ctx, h)
		if err != nil {
			t.Fatal(err)
		}
		if topics[i], err = ps.Join("chive"); err != nil {
			t.Fatal(err)
		}
		if in[i], err = topics[i].Subscribe(); err != nil {
			t.Fatal(err)
		}
	}
	const each = 5
	neighbours := []int{1, 2, 1}
	want := map[string]bool{}
	// The one in the middle is first: as long as it has not both others in its mesh, what one of them publishes
	// stays with it, and the other is not told of it later.
	for _, i := range []int{1, 0, 2} {
		topic := topics[i]
		for n := range each {
			text := fmt.Sprintf("message %d of host %d", n, i)
			want[text] = true
			// Before its neighbours are in the mesh, a message would reach nobody.
			if err := topic.Publish(ctx, []byte(text), pubsub.WithReadiness(pubsub.MinTopicSize(neighbours[i]))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, sub := range in {
		got := map[string]bool{}
		for len(got) < len(want) {
			m, err := sub.Next(ctx)
			if err != nil {
				t.Fatalf("host %d has %d of %d messages: %v", i, len(got), len(want), err)
			}
			if text := string(m.Data); !want[text] || got[text] {
				t.Fatalf("host %d got %q, which is another one or came twice", i, text)
			}
			got[string(m.Data)] = true
		}
	}
}
