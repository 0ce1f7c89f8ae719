package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/chivenet/chive/relay"
)

// A relay that runs until it is interrupted, and lets open circuits end.
func ExampleNew() {
	r, err := relay.New(relay.Config{
		DataDir:  "/var/lib/myrelay",
		Nickname: "myrelay",
		Contact:  "operator@example.com",
		ORPort:   []string{"192.0.2.1:9001"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	select {
	case <-r.Done():
		log.Fatal(r.Err())
	case <-interrupted:
	}
	if err := r.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// Check finds a mistake in a configuration before anything starts.
func ExampleConfig_Check() {
	cfg := relay.Config{DataDir: "/var/lib/myrelay", Nickname: "my relay", ORPort: []string{"9001"}}
	err := cfg.Check()
	fmt.Println(errors.Is(err, relay.ErrConfig), err)
	// Output: true Nickname: "my relay" is not 1 to 19 letters and digits
}
