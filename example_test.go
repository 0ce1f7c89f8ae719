package chive_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/chivenet/chive"
)

// A program's own HTTP client, through Tor.
func ExampleNew() {
	client, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	web := http.Client{
		Transport: &http.Transport{DialContext: client.DialContext},
		Timeout:   2 * time.Minute,
	}
	resp, err := web.Get("https://check.torproject.org/api/ip")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(log.Writer(), resp.Body); err != nil {
		log.Fatal(err)
	}
}

// Two activities that nobody at an exit can link.
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

// Progress, for a program that shows it.
func ExampleClient_Events() {
	client, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	events, stop := client.Events()
	defer stop()
	for e := range events {
		if b, ok := e.(*chive.BootstrapEvent); ok {
			fmt.Printf("%d%% %s\n", b.Percent, b.Stage)
			if b.Ready {
				return
			}
		}
	}
}
