package hsservice

import (
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// maxClientLock is how long a command waits for others that change the clients of the same service.
const maxClientLock = 10 * time.Second

// lockClients keeps other commands from changing the clients of the service in dir, until unlock is called. Without it, two that each
// remove a client could each take the other's for the one that stays, and so open the service to everybody.
func lockClients(dir string) (unlock func(), err error) {
	l, err := openLock(dir)
	if err != nil {
		return nil, fault.New(fault.Config, "authorized clients: %w", err)
	}
	for end := time.Now().Add(maxClientLock); ; time.Sleep(20 * time.Millisecond) {
		held, err := l.try()
		switch {
		case err != nil:
			l.close()
			return nil, fault.New(fault.Local, "authorized clients: lock %s: %w", dir, err)
		case held:
			return l.close, nil
		case time.Now().After(end):
			l.close()
			return nil, fault.New(fault.Local, "authorized clients: another command is changing them; wait until it has ended")
		}
	}
}
