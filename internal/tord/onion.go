package tord

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/ident"
)

// added is an onion service of ADD_ONION. It outlives the client: the next one begins it again.
type added struct {
	cfg      chive.OnionConfig
	listener *chive.OnionListener // nil: there is no client
}

// AddOnion implements control.Engine.
func (t *tor) AddOnion(o control.Onion) (address, key string, err error) {
	cfg, err := onionConfig(o)
	if err != nil {
		return "", "", err
	}
	address = strings.TrimSuffix(cfg.Key.Address(), ".onion")
	t.changing.Lock()
	defer t.changing.Unlock()
	if t.ctx.Err() != nil {
		return "", "", ctlwire.Errorf(ctlwire.Failed, "Failed to add Onion Service")
	}
	_, node := t.plan()
	if t.added[address] != nil || node != nil && node.Onions().Serves(identity(address)) {
		return "", "", ctlwire.Errorf(550, "Onion address collision")
	}
	if t.Findable() {
		cfg.SingleOnion = chive.HostCanBeFound
	}
	a := &added{cfg: cfg}
	if err := t.listenLocked(node, a); err != nil {
		t.log.Warn("ADD_ONION: the service did not begin", "err", err)
		return "", "", ctlwire.Errorf(ctlwire.Failed, "Failed to add Onion Service")
	}
	if t.added == nil {
		t.added = map[string]*added{}
	}
	t.added[address] = a
	_, secret, _ := strings.Cut(cfg.Key.Text(), ":")
	return address, secret, nil
}

// Findable implements control.Engine.
func (t *tor) Findable() bool {
	now, _ := t.plan()
	return now.findable
}

// onionConfig makes the configuration of a service of what ADD_ONION asks for.
func onionConfig(o control.Onion) (chive.OnionConfig, error) {
	cfg := chive.OnionConfig{
		Ports: []int{}, Targets: map[int]string{}, MaxStreams: o.MaxStreams, CloseCircuit: o.CloseCircuit,
		PoWDefense: o.PoW, PoWQueueRate: o.Rate, PoWQueueBurst: o.Burst,
	}
	for _, text := range o.Ports {
		port, target, err := hsservice.ParsePort(text)
		if err != nil {
			return cfg, ctlwire.Errorf(ctlwire.BadArgument, "Invalid VIRTPORT/TARGET")
		}
		addTarget(&cfg, int(port), target.String())
	}
	if o.PoW {
		pow := &hsservice.PoW{Rate: orUsual(o.Rate, hsservice.DefaultPoWRate), Burst: orUsual(o.Burst, hsservice.DefaultPoWBurst)}
		if pow.Burst < pow.Rate {
			return cfg, ctlwire.Errorf(ctlwire.BadArgument, "Invalid PoWQueueBurst")
		}
	}
	for _, text := range o.Clients {
		c, err := chive.ParseOnionClient("descriptor:x25519:" + text)
		if err != nil {
			return cfg, ctlwire.Errorf(ctlwire.BadArgument, "Cannot decode v3 client auth key")
		}
		cfg.AuthorizedClients = append(cfg.AuthorizedClients, c)
	}
	if hsservice.CheckLength(hsservice.DefaultPoints, len(o.Clients)) != nil {
		return cfg, ctlwire.Errorf(ctlwire.BadArgument, "Invalid client authorization")
	}
	var err error
	if o.Key == nil {
		if cfg.Key, err = chive.NewOnionKey(); err != nil {
			return cfg, ctlwire.Errorf(ctlwire.Failed, "Failed to generate ED25519-V3 key")
		}
	} else if cfg.Key, err = chive.ParseOnionKey("ED25519-V3:" + base64.StdEncoding.EncodeToString(o.Key)); err != nil {
		return cfg, ctlwire.Errorf(ctlwire.Failed, "Failed to generate onion address")
	}
	return cfg, nil
}

func orUsual(n, usual int) int {
	if n == 0 {
		return usual
	}
	return n
}

// addTarget adds a target of a port. Of several, each connection goes to one.
func addTarget(cfg *chive.OnionConfig, port int, target string) {
	if cfg.Targets[port] == "" {
		cfg.Targets[port] = target
		return
	}
	if cfg.MoreTargets == nil {
		cfg.MoreTargets = map[int][]string{}
	}
	cfg.MoreTargets[port] = append(cfg.MoreTargets[port], target)
}

// listenLocked begins a service, if there is a client.
func (t *tor) listenLocked(node *daemon.Hosted, a *added) error {
	if node == nil {
		return nil
	}
	l, err := node.Listen(context.Background(), a.cfg)
	if err == nil {
		a.listener = l
	}
	return err
}

// DelOnion implements control.Engine.
func (t *tor) DelOnion(address string) error {
	t.changing.Lock()
	defer t.changing.Unlock()
	a := t.added[address]
	if a == nil {
		return ctlwire.Errorf(ctlwire.Unknown, "Unknown Onion Service id")
	}
	delete(t.added, address)
	if a.listener == nil {
		return nil
	}
	return a.listener.Close()
}

// resumeOnionsLocked gives another client the services and keys of the one before.
func (t *tor) resumeOnionsLocked(node *daemon.Hosted) {
	node.Onions().TellOnions(t.tellOnion)
	for _, a := range t.added {
		a.listener = nil // it has ended with its client
		if err := t.listenLocked(node, a); err != nil {
			t.log.Error("an onion service of a controller could not begin again", "err", err)
		}
	}
	for _, k := range t.onionKeys {
		if err := node.AddOnionKey(k.key); err != nil {
			t.log.Error("a key for an onion service could not be used again", "err", err)
		}
	}
}

// identity returns the key that an address names. Package control has checked the address.
func identity(address string) ident.Ed25519ID {
	id, err := hscrypto.ReadAddress(address + ".onion")
	if err != nil {
		return ident.Ed25519ID{} // nobody has it
	}
	return id
}
