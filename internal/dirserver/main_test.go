package dirserver

import (
	"log"
	"os"
	"testing"
)

// TestMain makes the compressors, which the process keeps. Their channels must not come from
// a bubble: no other test could use them, whatever the order of the tests.
func TestMain(m *testing.M) {
	if _, err := deflate(nil, nil); err != nil {
		log.Fatal(err)
	}
	zstdEncoder().EncodeAll(nil, nil)
	os.Exit(m.Run())
}
