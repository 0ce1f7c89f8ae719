package fte_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net"

	"github.com/chivenet/chive/fte"
)

// A server's key, a listener that returns authenticated connections only, and
// a client that was given the certificate.
func ExampleProtocol() {
	key, err := fte.NewServerKey(rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	p := fte.Protocol{
		Request:  fte.NewFormat("request", `^([a-z]+ )+[a-z]+$`, 256),
		Response: fte.NewFormat("response", `^[0-9a-f]+$`, 256),
		Cert:     key.Cert(),
		Keys:     []*fte.ServerKey{key},
	}
	server, err := p.Acceptor()
	if err != nil {
		log.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	l := fte.NewListener(tcp, fte.ListenConfig{Transport: server})
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(c, c)
		c.(*fte.Conn).CloseWrite()
	}()

	client, err := p.Dialer()
	if err != nil {
		log.Fatal(err)
	}
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	c := client.Wrap(raw)
	defer c.Close()
	fmt.Fprint(c, "hello")
	c.CloseWrite()
	b, err := io.ReadAll(c)
	fmt.Println(string(b), err)
	// Output: hello <nil>
}

// A client of fteproxy's server.
func ExampleClassic() {
	d, err := fte.Classic{Format: "words"}.Dialer()
	if err != nil {
		log.Fatal(err)
	}
	raw, err := net.Dial("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	c := d.Wrap(raw)
	defer c.Close()
	fmt.Fprint(c, "what the server's proxied port gets")
}
