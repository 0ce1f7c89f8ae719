package tord

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/panics"
)

var _ control.Steering = (*tor)(nil)

// steered returns the client, which commands that steer need.
func (t *tor) steered(missing func() error) (*client.Client, error) {
	_, node := t.plan()
	if node == nil {
		return nil, missing()
	}
	return node.Inner(), nil
}

func unknownCircuit(id string) error {
	return ctlwire.Errorf(ctlwire.Unknown, "Unknown circuit %s", ctlwire.Quote(id))
}

func unknownStream(id string) error {
	return ctlwire.Errorf(ctlwire.Unknown, "Unknown stream %s", ctlwire.Quote(id))
}

// number reads the number of a circuit or a stream; zero: it is none.
func number64(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// purposeOf reads a purpose that a controller may give.
func purposeOf(word string) (client.Purpose, error) {
	name := word
	if len(name) > len("purpose=") && strings.EqualFold(name[:len("purpose=")], "purpose=") {
		name = name[len("purpose="):]
	}
	switch strings.ToLower(name) {
	case "general":
		return client.ForStreams, nil
	case "controller":
		return client.ForController, nil
	}
	return 0, ctlwire.Errorf(ctlwire.Unknown, "Unknown purpose %s", ctlwire.Quote(word))
}

// C tor's words for circuits of controllers that come to nothing.
var (
	errNotStarted  = ctlwire.Errorf(ctlwire.Failed, "Couldn't start circuit")
	errNotExtended = ctlwire.Errorf(ctlwire.Failed, "Couldn't send onion skin")
)

// maxPath bounds the relays that one command may name: each nickname is looked for among all relays.
const maxPath = 8

// ExtendCircuit implements control.Steering.
func (t *tor) ExtendCircuit(circuit string, path []string, purpose string) (uint64, error) {
	p := client.ForStreams
	if purpose != "" {
		var err error
		if p, err = purposeOf(purpose); err != nil {
			return 0, err
		}
	}
	c, err := t.steered(func() error {
		switch {
		case circuit != "0":
			return unknownCircuit(circuit)
		case len(path) > 0:
			return ctlwire.Errorf(ctlwire.Unknown, "No such router %s", ctlwire.Quote(path[0]))
		}
		return errNotStarted
	})
	if err != nil {
		return 0, err
	}
	if circuit != "0" {
		return t.extend(c, circuit, path)
	}
	relays, err := relaysOf(c, path, errNotStarted)
	if err != nil {
		return 0, err
	}
	id, err := c.NewCircuit(relays, p)
	if err != nil {
		t.log.Debug("a controller's circuit was not begun", "err", err)
		return 0, errNotStarted
	}
	return id, nil
}

// extend adds relays to a circuit that is there. C tor takes no notice of a purpose then.
func (t *tor) extend(c *client.Client, circuit string, path []string) (uint64, error) {
	id := number64(circuit)
	if !c.HasCircuit(id) {
		return 0, unknownCircuit(circuit)
	}
	if len(path) == 0 {
		return 0, ctlwire.Errorf(ctlwire.BadArgument, "syntax error: path required.")
	}
	relays, err := relaysOf(c, path, errNotExtended)
	if err != nil {
		return 0, err
	}
	switch err := c.ExtendCircuit(id, relays); {
	case errors.Is(err, client.ErrUnknown):
		return 0, unknownCircuit(circuit)
	case err != nil:
		t.log.Debug("a controller's circuit was not extended", "err", err)
		return 0, errNotExtended
	}
	return id, nil
}

// relaysOf finds the relays of a path; many is the error of one with too many.
func relaysOf(c *client.Client, path []string, many error) (relays []netdir.Relay, _ error) {
	if len(path) > maxPath {
		return nil, many
	}
	for _, name := range path {
		r, err := c.FindRelay(name)
		if err != nil {
			return nil, ctlwire.Errorf(ctlwire.Unknown, "No such router %s", ctlwire.Quote(name))
		}
		if !r.HasMicrodesc() {
			return nil, ctlwire.Errorf(ctlwire.Unknown, "No descriptor for %s", ctlwire.Quote(name))
		}
		relays = append(relays, r)
	}
	return relays, nil
}

// CloseCircuit implements control.Steering.
func (t *tor) CloseCircuit(circuit string, unused bool) error {
	missing := func() error { return unknownCircuit(circuit) }
	c, err := t.steered(missing)
	if err == nil && c.CloseCircuit(number64(circuit), unused) != nil {
		err = missing()
	}
	return err
}

// SetCircuitPurpose implements control.Steering.
func (t *tor) SetCircuitPurpose(circuit, purpose string) error {
	missing := func() error { return unknownCircuit(circuit) }
	c, err := t.steered(missing)
	if err != nil {
		return err
	}
	if !c.HasCircuit(number64(circuit)) {
		return missing()
	}
	if purpose == "" {
		return ctlwire.Errorf(ctlwire.Unknown, "No purpose given")
	}
	p, err := purposeOf(purpose)
	if err != nil {
		return err
	}
	switch err := c.SetPurpose(number64(circuit), p); {
	case errors.Is(err, client.ErrUnknown):
		return missing()
	case err != nil:
		return ctlwire.Errorf(ctlwire.Failed, "Chive needs the circuit for another purpose")
	}
	return nil
}

// AttachStream implements control.Steering.
func (t *tor) AttachStream(stream, circuit string, hop int) error {
	c, err := t.steered(func() error { return unknownStream(stream) })
	if err != nil {
		return err
	}
	if !c.HasStream(number64(stream)) {
		return unknownStream(stream)
	}
	if circuit != "0" && !c.HasCircuit(number64(circuit)) {
		return unknownCircuit(circuit)
	}
	switch err := c.Attach(number64(stream), number64(circuit), hop); {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrNotWaiting):
		return ctlwire.Errorf(555, "Connection is not managed by controller.")
	case errors.Is(err, client.ErrNotOpen):
		return ctlwire.Errorf(ctlwire.Failed, "Can't attach stream to non-open origin circuit")
	case errors.Is(err, client.ErrOneHop):
		return ctlwire.Errorf(ctlwire.Failed, "Can't attach stream to this one-hop circuit.")
	}
	return ctlwire.Errorf(ctlwire.Failed, "Unable to attach stream")
}

// RedirectStream implements control.Steering.
func (t *tor) RedirectStream(stream, host string, port uint16) error {
	missing := func() error { return unknownStream(stream) }
	c, err := t.steered(missing)
	if err != nil {
		return err
	}
	switch err := c.Redirect(number64(stream), host, port); {
	case errors.Is(err, client.ErrUnknown):
		return missing()
	case err != nil:
		return ctlwire.Errorf(ctlwire.Failed, "The stream does not wait to be attached")
	}
	return nil
}

// CloseStream implements control.Steering.
func (t *tor) CloseStream(stream string, reason uint8) error {
	missing := func() error { return unknownStream(stream) }
	c, err := t.steered(missing)
	if err != nil {
		return err
	}
	if err := c.CloseStream(number64(stream), cell.EndReason(reason)); errors.Is(err, client.ErrUnknown) {
		return missing()
	}
	return nil // another error is of the stream, which is over
}

// StreamsBy implements control.Steering.
func (t *tor) StreamsBy(ports []string) map[string]uint64 {
	own := map[string]uint64{}
	c, err := t.steered(func() error { return errNotStarted })
	if err != nil {
		return own
	}
	for _, r := range c.Streams() {
		if r.From.Port != "" && slices.Contains(ports, r.From.Port) {
			own[strconv.FormatUint(r.ID, 10)] = r.Circuit
		}
	}
	return own
}

// MapAddress implements control.Steering.
func (t *tor) MapAddress(rules []control.Line) []control.Mapping {
	t.changing.Lock() // a client that ends gives its rules to the next one
	defer t.changing.Unlock()
	out := make([]control.Mapping, len(rules))
	c, err := t.steered(func() error { return ctlwire.Errorf(451, "resource exhausted: the network is off") })
	if err != nil {
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	now, _ := t.plan()
	var virtual [2]netip.Prefix
	for i, name := range []string{"VirtualAddrNetworkIPv4", "VirtualAddrNetworkIPv6"} {
		v := strings.NewReplacer("[", "", "]", "").Replace(now.conf.one(name))
		if p, err := netip.ParsePrefix(v); err == nil {
			virtual[i] = p
		}
	}
	asked := make([]client.Mapped, len(rules))
	for i, r := range rules {
		asked[i] = client.Mapped{From: r.Key, To: r.Value}
	}
	took, errs := c.MapAddresses(asked, virtual)
	for i, r := range took {
		from, to := ctlwire.OneLine(r.From), ctlwire.OneLine(r.To)
		switch {
		case errs[i] == nil:
			out[i].Text = from + "=" + to
			t.made("ADDRMAP", func() string { return mappedLine(oneWord(r.From), oneWord(r.To), 0, false, 0) })
		case errors.Is(errs[i], client.ErrMapFull):
			out[i].Err = ctlwire.Errorf(451, "resource exhausted: skipping '%s=%s'", from, to)
		default:
			out[i].Err = ctlwire.Errorf(ctlwire.BadArgument, "syntax error: invalid address mapping  '%s=%s': %v", from, to, errs[i])
		}
	}
	return out
}

// maxLookups bounds the lookups of controllers that are under way.
const maxLookups = 64

// lookupTime bounds each.
const lookupTime = 2 * time.Minute

// Resolve implements control.Steering.
func (t *tor) Resolve(names []string, reverse bool) {
	for _, name := range names {
		c, err := t.steered(func() error { return errNotStarted })
		if err != nil || t.lookups.Add(1) > maxLookups {
			if err == nil {
				t.lookups.Add(-1)
			}
			t.answered(name, nil, err)
			continue
		}
		if !t.background(func() {
			defer t.lookups.Add(-1)
			t.lookUp(c, name, reverse)
		}) {
			t.lookups.Add(-1)
		}
	}
}

func (t *tor) lookUp(c *client.Client, name string, reverse bool) {
	ctx, cancel := context.WithTimeout(t.ctx, lookupTime)
	defer cancel()
	if a, err := netip.ParseAddr(name); reverse != (err == nil) {
		t.answered(name, nil, fault.New(fault.Config, "%v: the name does not fit the mode", a.IsValid()))
		return
	}
	answers, err := c.Resolve(ctx, client.Request{Host: name, Key: isolation.Key{Listener: "control"}})
	found := map[string]time.Duration{}
	var order []string
	for _, a := range answers {
		to := a.Name
		if a.Addr.IsValid() {
			to = a.Addr.String()
		}
		if _, known := found[to]; !known && to != "" {
			order = append(order, to)
		}
		found[to] = time.Duration(a.TTL) * time.Second
	}
	if reverse {
		name = "REVERSE[" + name + "]"
	}
	if len(order) == 0 {
		t.answered(name, nil, err)
		return
	}
	for _, to := range order[:1] { // C tor tells one
		t.made("ADDRMAP", func() string { return mappedLine(oneWord(name), oneWord(to), max(found[to], time.Second), false, 0) })
	}
}

// answered tells that a lookup has failed.
func (t *tor) answered(name string, _ []string, _ error) {
	t.made("ADDRMAP", func() string { return mappedLine(oneWord(name), "<error>", time.Minute, true, 0) })
}

// background runs f unless the program ends.
func (t *tor) background(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.wg.Go(panics.Contain(t.log, nil, f))
	return true
}

// DropGuards implements control.Steering.
func (t *tor) DropGuards() error {
	if c, err := t.steered(func() error { return errNotStarted }); err == nil {
		c.DropGuards()
	}
	return nil
}

// DropTimeouts implements control.Steering.
func (t *tor) DropTimeouts() error {
	if c, err := t.steered(func() error { return errNotStarted }); err == nil {
		c.DropTimeouts()
	}
	return nil
}
