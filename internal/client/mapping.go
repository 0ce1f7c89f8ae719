package client

import (
	"crypto/rand"
	"encoding/base32"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/chivenet/chive/internal/fault"
)

// mapping has the rules of the configuration and those of controllers, which come before them.
type mapping struct {
	all atomic.Pointer[AddrMap] // both

	mu      sync.Mutex // guards what follows
	config  *AddrMap
	control []Mapped
}

// Mapped is a rule of a controller.
type Mapped struct{ From, To string }

// maxControlled bounds the rules of controllers.
const maxControlled = 4096

// maxMapSide bounds each side of such a rule, which is kept as it came: "*." and a host name.
const maxMapSide = 257

// Errors of MapAddress.
var (
	ErrMapFull = fault.New(fault.Resource, "there are too many rules")
	ErrMapLong = fault.New(fault.Config, "a side of the rule is too long")
)

// mapped returns the host that a host stands for.
func (c *Client) mapped(host string) (string, error) { return c.mapping.all.Load().Of(host) }

// configure takes over the configuration's rules.
func (m *mapping) configure(a *AddrMap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.config = a
	m.all.Store(joined(a, m.control))
}

// joined returns rules that are those of a configuration and of controllers. The latter were checked.
func joined(a *AddrMap, control []Mapped) *AddrMap {
	if len(control) == 0 {
		return a
	}
	out := a.clone()
	for _, r := range control {
		_ = out.put(r.From, r.To) // it was checked when it came
	}
	return out
}

func (m *AddrMap) clone() *AddrMap {
	if m == nil {
		return &AddrMap{map[string]string{}, map[string]domain{}}
	}
	return &AddrMap{maps.Clone(m.hosts), maps.Clone(m.domains)}
}

// MapAddresses takes over rules of a controller, each by itself, and returns for each rule how it is written
// and an error if it was not taken. From "." or an unspecified address stands for one that the client makes
// up: a name, or an address of one of the networks. A rule from a host to itself takes its rule away.
func (c *Client) MapAddresses(rules []Mapped, virtual [2]netip.Prefix) ([]Mapped, []error) {
	m := &c.mapping
	m.mu.Lock()
	defer m.mu.Unlock()
	next := slices.Clone(m.control)
	at := map[string]int{}
	for i, r := range next {
		at[plainHost(r.From)] = i
	}
	all := joined(m.config, next).clone()
	out, errs := slices.Clone(rules), make([]error, len(rules))
	for i := range out {
		r := &out[i]
		if len(r.From) > maxMapSide || len(r.To) > maxMapSide {
			errs[i] = ErrMapLong
			continue
		}
		if errs[i] = all.invent(r, virtual); errs[i] != nil {
			continue
		}
		key := plainHost(r.From)
		n, known := at[key]
		switch {
		case plainHost(r.To) == key:
			if known {
				all.withdraw(next[n].From, m.config)
				next[n] = Mapped{}
				delete(at, key)
			}
		case !known && len(at) >= maxControlled:
			errs[i] = ErrMapFull
		default:
			if errs[i] = all.try(r.From, r.To); errs[i] != nil {
				continue
			}
			if known {
				next[n] = *r
			} else {
				at[key], next = len(next), append(next, *r)
			}
		}
	}
	m.control = slices.DeleteFunc(next, func(r Mapped) bool { return r == Mapped{} })
	m.all.Store(joined(m.config, m.control))
	return out, errs
}

// Controlled returns the rules of controllers.
func (c *Client) Controlled() []Mapped {
	c.mapping.mu.Lock()
	defer c.mapping.mu.Unlock()
	return slices.Clone(c.mapping.control)
}

// withdraw takes a rule of a controller away. If the configuration has one for the same hosts, that counts again.
func (m *AddrMap) withdraw(from string, config *AddrMap) {
	host, all, err := mapSide(from)
	if err != nil {
		return // it was checked when it came
	}
	if config == nil {
		config = &AddrMap{}
	}
	if all {
		takeBack(m.domains, config.domains, host)
	} else {
		takeBack(m.hosts, config.hosts, host)
	}
}

func takeBack[T any](in, config map[string]T, key string) {
	if to, ok := config[key]; ok {
		in[key] = to
	} else {
		delete(in, key)
	}
}

// try adds a rule, unless it is wrong or leads in a circle.
func (m *AddrMap) try(one, other string) error {
	from, all, err := mapSide(one)
	if err != nil {
		return err
	}
	host, hadHost := m.hosts[from]
	below, hadBelow := m.domains[from]
	if err := m.put(one, other); err != nil {
		return err
	}
	for _, probe := range m.probes(one) {
		if _, err = m.Of(probe); err == nil {
			continue
		}
		switch {
		case all && hadBelow:
			m.domains[from] = below
		case all:
			delete(m.domains, from)
		case hadHost:
			m.hosts[from] = host
		default:
			delete(m.hosts, from)
		}
		return err
	}
	return nil
}

// invent replaces what a rule leaves to the client.
func (m *AddrMap) invent(r *Mapped, virtual [2]netip.Prefix) error {
	var b [16]byte
	for range 1000 {
		rand.Read(b[:]) // it never fails
		switch a, err := netip.ParseAddr(r.From); {
		case r.From == ".":
			r.From = strings.ToLower(base32.StdEncoding.EncodeToString(b[:10])) + ".virtual"
		case err != nil || !a.IsUnspecified():
			return nil
		case a.Is4():
			r.From = within(virtual[0], b[:4]).String()
		default:
			r.From = "[" + within(virtual[1], b[:]).String() + "]"
		}
		if _, taken := m.hosts[plainHost(r.From)]; !taken {
			return nil
		}
	}
	return ErrMapFull
}

// within returns the address of a network that has the rest of its bits from b.
func within(p netip.Prefix, b []byte) netip.Addr {
	for i, n := range p.Masked().Addr().AsSlice() {
		keep := byte(0xff)
		if left := p.Bits() - 8*i; left < 8 {
			keep <<= 8 - max(left, 0)
		}
		b[i] = n&keep | b[i]&^keep
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
