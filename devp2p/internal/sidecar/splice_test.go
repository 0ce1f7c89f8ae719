package sidecar

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
)

// TestSpliceEnds: a client of the onion that reads nothing does not keep its place when the
// node has sent it away.
func TestSpliceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, onion := net.Pipe()
		defer client.Close()
		node, port := net.Pipe()
		done := make(chan struct{})
		go func() {
			splice(onion, port)
			close(done)
		}()
		if _, err := io.WriteString(node, "blocks"); err != nil {
			t.Fatal(err)
		}
		node.Close()
		<-done
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Error("the client's connection is open:", err)
		}
	})
}
