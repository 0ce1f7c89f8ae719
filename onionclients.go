package chive

import (
	"slices"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/role"
)

// AuthorizeClients lets clients connect to the service from now on, besides those that may. A
// service that was open to everybody is for these clients only then, and connections of others
// end. The clients are in the service's Config from now on. For what else happens see Reload.
func (l *OnionListener) AuthorizeClients(clients ...OnionClient) error {
	return l.change(func(now []OnionClient) ([]OnionClient, error) {
		for _, c := range clients {
			if !slices.Contains(now, c) {
				now = append(now, c)
			}
		}
		return now, nil
	}, nil)
}

// RemoveClients keeps clients from the service. Their open connections end when introduction
// points that they do not know have replaced the old ones: when directories have the new
// descriptor, or after two minutes. Those of others end with them, because nothing tells them
// apart, and they come again. It is an error (ErrConfig), and nothing changes, if one of them is
// not in AuthorizedClients, or a file of KeyDir has it, too, or if no authorized client would be
// left, because everybody could connect then: Reload with other AuthorizedClients opens a service.
func (l *OnionListener) RemoveClients(clients ...OnionClient) error {
	return l.change(func(now []OnionClient) ([]OnionClient, error) {
		for _, c := range clients {
			if !slices.Contains(now, c) {
				return nil, fault.New(fault.Config, "onion service: one of the clients is not in AuthorizedClients; a client of KeyDir has a file there")
			}
			now = slices.DeleteFunc(now, func(o OnionClient) bool { return o == c })
		}
		return now, nil
	}, clients)
}

// AuthorizedClients returns the clients that may connect, those of KeyDir among them; none:
// everybody may.
func (l *OnionListener) AuthorizedClients() (out []OnionClient) {
	for _, key := range l.s.Clients() {
		out = append(out, OnionClient{key})
	}
	return out
}

// change reloads the service with other AuthorizedClients, of which none may be in without.
func (l *OnionListener) change(clients func(now []OnionClient) ([]OnionClient, error), without []OnionClient) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	cfg := role.Copy(l.given)
	var err error
	if cfg.AuthorizedClients, err = clients(cfg.AuthorizedClients); err != nil {
		return err
	}
	live, err := l.next(&cfg)
	if err != nil {
		return err
	}
	if len(live.Clients) == 0 {
		return fault.New(fault.Config, "onion service: no authorized client would be left, and everybody could connect: reload it without any, if that is wanted, or close it")
	}
	for _, c := range without {
		if slices.Contains(live.Clients, c.key) {
			return fault.New(fault.Config, "onion service: a file of KeyDir authorizes the client: remove the file first")
		}
	}
	if err := l.s.Reload(live); err != nil {
		return err
	}
	l.given = cfg
	return nil
}
