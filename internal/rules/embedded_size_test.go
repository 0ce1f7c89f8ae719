package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// maxEmbedded bounds, in bytes, a stripped program that does nothing but fetch a page through
// a client: what importing Chive costs a program.
const maxEmbedded = 13_000_000

const embeddedProgram = `package main

import (
	"log"

	"github.com/chivenet/chive"
)

func main() {
	c, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.HTTPClient().Get("https://example.com/"); err != nil {
		log.Fatal(err)
	}
}
`

// TestEmbeddedSize builds a program that imports the client and nothing else.
func TestEmbeddedSize(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and links a whole program")
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(embeddedProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a program with only a client: %d bytes", info.Size())
	if info.Size() > maxEmbedded {
		t.Errorf("a program with only a client has %d bytes, more than %d: what does it link that a client does not need?", info.Size(), maxEmbedded)
	}
}
