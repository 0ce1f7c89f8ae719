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

// A web server of HTTPS that has an onion address.
func ExampleOnionListener_TLSConfig() {
	client, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	listener, err := client.Listen(context.Background(), chive.OnionConfig{KeyDir: "shop", Ports: []int{443}})
	if err != nil {
		log.Fatal(err)
	}
	defer listener.Close()
	config, err := listener.TLSConfig() // a new certificate that signs itself; or give it one of yours
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{TLSConfig: config}
	fmt.Println("https://" + listener.Address())
	log.Print(server.ServeTLS(listener, "", ""))
}

// Who may connect changes while the service runs, and a client learns its key.
func ExampleOnionListener_AuthorizeClients() {
	client, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	listener, err := client.Listen(context.Background(), chive.OnionConfig{KeyDir: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	defer listener.Close()
	// The client makes the key, and sends its public half only.
	key, err := chive.NewOnionClientKey(listener.Address())
	if err != nil {
		log.Fatal(err)
	}
	public := key.Client().String()
	if err := client.AddOnionClientKey(key); err != nil {
		log.Fatal(err)
	}
	// The service reads it.
	alice, err := chive.ParseOnionClient(public)
	if err != nil {
		log.Fatal(err)
	}
	if err := listener.AuthorizeClients(alice); err != nil {
		log.Fatal(err)
	}
	if err := listener.RemoveClients(alice); errors.Is(err, chive.ErrConfig) {
		log.Print("she is the only one: the service would be open to everybody")
	}
}

// A service that looks at its connections before their clients are told that they are open.
func ExampleOnionConn_Refuse() {
	client, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	listener, err := client.Listen(context.Background(), chive.OnionConfig{DeferConnected: true})
	if err != nil {
		log.Fatal(err)
	}
	defer listener.Close()
	for {
		conn, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		if c := conn.(*chive.OnionConn); c.Port() != 80 {
			if err := c.Refuse(chive.EndConnectRefused); err != nil {
				log.Print(err)
			}
			continue
		}
		go func() {
			defer conn.Close()
			fmt.Fprintln(conn, "hello")
		}()
	}
}

// A connection by an exit in Germany, over IPv6, on a circuit of its own.
func ExampleWithExitCountry() {
	client, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := chive.WithExitCountry(context.Background(), "de")
	ctx = chive.WithIPFamily(ctx, chive.FamilyIPv6Only)
	ctx = chive.WithIsolateEveryStream(ctx)
	conn, err := client.DialContext(ctx, "tcp", "example.com:443")
	if errors.Is(err, chive.ErrConfig) {
		log.Fatal("no exit does all of this: ", err)
	}
	if err != nil {
		log.Fatal(err)
	}
	conn.Close()
}

// A key that is kept elsewhere than in a directory. Only Text shows it.
func ExampleOnionKey() {
	key, err := chive.NewOnionKey()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(key)
	again, err := chive.ParseOnionKey(key.Text())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Equal(key), len(key.Address()))
	// Output:
	// [scrubbed]
	// true 62
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
