package chive_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"syscall"
	"time"

	"github.com/chivenet/chive"
)

// A program's own HTTP requests, through Tor.
func ExampleClient_HTTPClient() {
	client, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	web := client.HTTPClient()
	web.Timeout = 2 * time.Minute
	resp, err := web.Get("https://check.torproject.org/api/ip")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(log.Writer(), resp.Body); err != nil {
		log.Fatal(err)
	}
}

// A stream, and the meaning of its errors.
func ExampleClient_DialContext() {
	client, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := client.DialContext(ctx, "tcp", "example.com:7")
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		log.Print("the host is there, and nothing listens at the port")
	case errors.Is(err, chive.ErrPolicy):
		log.Print("no exit connects there")
	case errors.Is(err, chive.ErrDirectory):
		log.Print("the client has not got a directory yet")
	case err != nil:
		log.Fatal(err)
	default:
		conn.Close()
	}
}

// A web server that has an onion address, and no other.
func ExampleClient_Listen() {
	client, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	listener, err := client.Listen(ctx, chive.OnionConfig{KeyDir: "shop", Ports: []int{80}})
	if err != nil {
		log.Fatal(err)
	}
	defer listener.Close()
	fmt.Println("http://" + listener.Address())
	go func() {
		if err := listener.WaitPublished(ctx); err == nil {
			fmt.Println("clients can connect")
		}
	}()
	err = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello")
	}))
	log.Print(err)
}

// Two activities that an exit cannot link.
func ExampleClient_Isolated() {
	client, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, activity := range []*chive.Client{client.Isolated(), client.Isolated()} {
		conn, err := activity.Dial("tcp", "example.com:80")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Fprintf(conn, "HEAD / HTTP/1.0\r\nHost: example.com\r\n\r\n")
		if err := conn.Close(); err != nil {
			log.Fatal(err)
		}
	}
}

// Progress, for a program that shows it. The first event has the present state,
// and the channel closes when the client is closed.
func ExampleClient_Events() {
	client, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	events, stop := client.Events()
	defer stop()
	timeout := time.After(5 * time.Minute)
	for {
		select {
		case e := <-events:
			if b, ok := e.(*chive.BootstrapEvent); ok {
				fmt.Printf("%d%% %s\n", b.Percent, b.Stage)
				if b.Ready {
					return
				}
			}
		case <-client.Done():
			log.Fatal(client.Err())
		case <-timeout:
			log.Fatal("not ready after five minutes: ", client.Status().Bootstrap.Problem)
		}
	}
}

// Options that change while the client runs.
func ExampleClient_Reload() {
	client, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	cfg := client.Config()
	cfg.ExcludeNodes = append(cfg.ExcludeNodes, "192.0.2.0/24")
	if err := client.Reload(cfg); err != nil {
		log.Fatal(err)
	}
}

// Check finds a mistake in a configuration before anything starts.
func ExampleConfig_Check() {
	cfg := chive.Config{ExitNodes: []string{"moria1"}, MaxCircuitDirtiness: time.Second}
	err := cfg.Check()
	fmt.Println(errors.Is(err, chive.ErrConfig), err)
	// Output: true MaxCircuitDirtiness: 1s is not from 10s to 720h0m0s
}

// A private network, from the text of its file.
func ExampleParseNetwork() {
	network, err := chive.ParseNetwork([]byte(`
name = "mine"

[[authority]]
nickname = "a1"
v3ident  = "0101010101010101010101010101010101010101"
rsa      = "0202020202020202020202020202020202020202"
orport   = ["192.0.2.1:9001"]
dirport  = "192.0.2.1:9030"
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(network.Name())
	_, err = chive.ParseNetwork([]byte(`nmae = "mine"`))
	fmt.Println(errors.Is(err, chive.ErrConfig))
	// Output:
	// mine
	// true
}
