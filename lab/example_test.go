package lab_test

import (
	"context"
	"fmt"
	"time"

	"github.com/chivenet/chive/lab"
)

func Example() {
	ctx := context.Background()
	nw, err := lab.Start(ctx, lab.Options{Authorities: 1, Relays: 2, Exits: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nw.Close()
	f, err := nw.Fetch(ctx, 10_000)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Bytes, "bytes through", len(f.Path), "relays, the last of them", f.Path[2].Name)
	// Output: 10000 bytes through 3 relays, the last of them chiveexit0
}

// A relay joins a running network, and clients use it.
func ExampleNetwork_Add() {
	ctx := context.Background()
	nw, err := lab.Start(ctx, lab.Options{Authorities: 1, Relays: 2, Exits: 1, VotingInterval: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nw.Close()
	n, err := nw.Add(ctx, lab.Exit)
	if err != nil {
		fmt.Println(err)
		return
	}
	waiting, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := nw.WaitListed(waiting, n); err != nil {
		fmt.Println(err) // says what is missing
		return
	}
	cfg := nw.Client.Config()
	cfg.ExitNodes = []string{n.Fingerprint}
	if err := nw.Client.Reload(cfg); err != nil {
		fmt.Println(err)
		return
	}
	f, err := nw.Fetch(ctx, 10_000)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Bytes, "bytes by way of", f.Path[2].Name)
	// Output: 10000 bytes by way of chiveexit1
}
