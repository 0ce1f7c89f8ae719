package authority_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/authority"
)

// This network has a single authority, on this machine. A real network has
// several, on machines of different people, and its file names all of them.
func Example() {
	if err := run(); err != nil {
		fmt.Println(err)
	}
	// Output: boss runs, one of 1 authorities
}

func run() (err error) {
	dir, err := os.MkdirTemp("", "authority-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	keys, err := authority.MakeKeys(filepath.Join(dir, "keys"), "127.0.0.1:9030", 12, nil)
	if err != nil {
		return err
	}
	network, err := chive.ParseNetwork(fmt.Appendf(nil, `
name = "mine"
[[authority]]
nickname = "boss"
v3ident  = %q
rsa      = %q
ed25519  = %q
orport   = ["127.0.0.1:9001"]
dirport  = "127.0.0.1:9030"
[testing]
allow_private_addresses = true
`, keys.V3Ident, keys.RSA, keys.Ed25519))
	if err != nil {
		return err
	}
	a, err := authority.New(authority.Config{
		Network: network, DataDir: dir, Nickname: "boss", Contact: "me@example.com",
		ORPort: "127.0.0.1:0", DirPort: "127.0.0.1:0", // a real one has the ports of the file
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	s := a.Status()
	fmt.Println(s.Nickname, "runs, one of", s.Authorities, "authorities")
	return nil
}
