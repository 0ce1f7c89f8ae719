package chive

import (
	"errors"

	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/role"
)

// OpenOnionKey reads the key in the directory of an onion service, as OnionConfig.KeyDir has it, for a program
// that has something else than Listen host the service, such as a Tor daemon. It makes the directory and the key
// if they are missing. Until close is called, no other program hosts the service, nor does Listen with this
// directory: two of them would take its clients from each other. The error is of kind ErrConfig if another one
// hosts it already, or if other users of the machine can access the key.
func OpenOnionKey(dir string) (key OnionKey, close func() error, err error) {
	lock, err := role.OpenServiceDir(dir)
	if err != nil {
		return OnionKey{}, nil, err
	}
	k, err := hsservice.OpenKey(dir)
	if err != nil {
		return OnionKey{}, nil, errors.Join(err, lock.Close())
	}
	return OnionKey{k}, lock.Close, nil
}
