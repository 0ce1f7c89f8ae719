package lab_test

import (
	"context"
	"fmt"

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
