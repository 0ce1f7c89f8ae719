package dirserver

import (
	"context"
	"encoding/base64"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdoc"
)

// The requests of onion services and their clients (rend-spec-v3, "HSDir").
const (
	HSPublishPath = "/tor/hs/3/publish"
	hsFetchPrefix = "/tor/hs/3/"
)

// hsDescCost is what a descriptor counts besides its text, in bytes, with the accounts.
const hsDescCost = 768

// hsSweep is how often descriptors whose time is over are looked for.
const hsSweep = time.Minute

// HSDirConfig says how an HSDir works.
type HSDirConfig struct {
	Now    func() time.Time
	Memory *account.Memory // counts the descriptors, under the addresses that they came from
	// MaxBytes returns the bound of all descriptors together, in bytes.
	MaxBytes func() int64
}

// HSDir keeps the descriptors of onion services and gives them to clients. It knows
// neither the services' addresses nor the clients, and logs nothing. Its methods may be called from any
// goroutine.
type HSDir struct {
	cfg   HSDirConfig
	stats HSDirStats

	mu     sync.Mutex // guards what follows
	descs  map[ident.Ed25519ID]*hsDesc
	order  hsOrder // who goes first
	texts  blocks
	bytes  int64
	swept  time.Time
	count  uint64 // descriptors that ever came
	closed bool
}

// HSDirStats counts what an HSDir did.
type HSDirStats struct {
	Stored, Refused, Evicted atomic.Uint64 // descriptors
	Fetched, Missed          atomic.Uint64 // requests for one
	Repeated                 atomic.Uint64 // requests after the first one of a circuit
}

// hsDesc is a descriptor that is kept.
type hsDesc struct {
	blinded   ident.Ed25519ID
	text      blockText
	revision  uint64
	ends      time.Time
	downloads uint64
	number    uint64 // of all that came
	places    hsPlaces

	address, account *account.Account
}

// hsSize is what a descriptor of a text's length counts.
func hsSize(text int) int { return blocksOf(text)*blockCost + hsDescCost }

func (d *hsDesc) size() int { return hsSize(d.text.size) }

// NewHSDir returns an HSDir without descriptors.
func NewHSDir(cfg HSDirConfig) *HSDir {
	return &HSDir{cfg: cfg, descs: map[ident.Ed25519ID]*hsDesc{}, order: newHSOrder(), swept: cfg.Now()}
}

// Stats returns the counters.
func (d *HSDir) Stats() *HSDirStats { return &d.stats }

// Held returns how many descriptors are kept, and their size in bytes.
func (d *HSDir) Held() (descriptors int, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.descs), d.bytes
}

// Handle is a Handler for the requests of onion services and their clients.
func (d *HSDir) Handle(_ context.Context, peer Peer, r *Request) *Response {
	if !strings.HasPrefix(r.Path, hsFetchPrefix) {
		return nil
	}
	// A circuit of one hop would tell who asks for what.
	if !peer.MultiHop {
		return Short(503, "Onion service descriptors need a circuit of more than one hop")
	}
	if !d.first(peer.Circuit) {
		return Short(400, "Bad request") // nobody reads it
	}
	switch {
	case r.Method == "GET":
		return d.fetch(strings.TrimPrefix(r.Path, hsFetchPrefix))
	case r.Path == HSPublishPath:
		return d.publish(peer, r.Body)
	}
	return Short(400, "Bad request")
}

// first reports whether a circuit may ask: for one descriptor in its life, or to take one. Any
// later request ends the circuit, as with C tor: else one circuit, once built, could be used to
// flood a directory. Clients and services take a circuit for each.
func (d *HSDir) first(c *circuit.Circuit) bool {
	if c == nil || c.FirstHSDirRequest() {
		return true
	}
	d.stats.Repeated.Add(1)
	c.Close(cell.DestroyProtocol, fault.New(fault.Protocol, "directory: a second request about descriptors of onion services"))
	return false
}

// Close drops all descriptors and takes none any more. Their memory is not the collector's.
func (d *HSDir) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, e := range d.descs {
		d.dropLocked(e)
	}
	d.texts.trim(0)
}

func (d *HSDir) fetch(name string) *Response {
	b, err := base64.RawStdEncoding.Strict().DecodeString(name)
	if err != nil || len(b) != len(ident.Ed25519ID{}) {
		return Short(404, "Not found")
	}
	now := d.cfg.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweepLocked(now)
	e := d.descs[ident.Ed25519ID(b)]
	if e == nil || !now.Before(e.ends) {
		d.stats.Missed.Add(1)
		return Short(404, "Not found")
	}
	d.stats.Fetched.Add(1)
	e.downloads++
	d.order.downloaded(e)
	return &Response{Status: 200, Reason: "OK", Parts: []*Doc{NewDoc(d.texts.get(&e.text))}, Made: e.text.size}
}

func (d *HSDir) publish(peer Peer, body []byte) *Response {
	now := d.cfg.Now()
	desc, err := netdoc.ParseHSDescriptor(body, now)
	if err != nil || !d.keep(peer, desc, now) {
		d.stats.Refused.Add(1)
		return Short(400, "Invalid HS descriptor. Rejected")
	}
	d.stats.Stored.Add(1)
	return Short(200, "HS descriptor stored successfully")
}

// keep keeps a descriptor, in the place of an earlier one with a lower revision
// counter; false: there is none.
func (d *HSDir) keep(peer Peer, desc *netdoc.HSDescriptor, now time.Time) bool {
	e := &hsDesc{blinded: desc.Blinded, revision: desc.Revision, ends: now.Add(desc.Lifetime)}
	if desc.Expires.Before(e.ends) {
		e.ends = desc.Expires
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweepLocked(now)
	if old := d.descs[e.blinded]; old != nil {
		if now.Before(old.ends) && old.revision >= e.revision {
			return false
		}
		e.downloads = old.downloads
		d.dropLocked(old)
	}
	// Room is made first, so that no descriptor goes as soon as it came: its absence
	// would tell how full this directory is.
	size, most := hsSize(len(desc.Text)), d.cfg.MaxBytes()
	for len(d.descs) > 0 && d.bytes+int64(size) > most {
		d.stats.Evicted.Add(1)
		d.dropLocked(d.order.first(most / hsUploaderShare))
	}
	if d.closed || d.texts.put(&e.text, desc.Text) != nil { // or the system has no memory
		return false
	}
	d.count++
	e.number = d.count
	d.descs[e.blinded] = e
	d.bytes += int64(size)
	// The circuit that it came by ends long before the descriptor.
	e.address = d.cfg.Memory.Address(peer.Addr)
	e.account = e.address.Open(account.Kept, func(error) { d.evict(e) })
	e.account.Reserve(size)
	d.order.add(e, netaddr.Peer(peer.Addr))
	return true
}

// evict drops a descriptor because peers hold too much memory.
func (d *HSDir) evict(e *hsDesc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.descs[e.blinded] == e {
		d.stats.Evicted.Add(1)
		d.dropLocked(e)
	}
}

func (d *HSDir) dropLocked(e *hsDesc) {
	delete(d.descs, e.blinded)
	d.order.remove(e)
	d.bytes -= int64(e.size())
	d.texts.drop(&e.text)
	e.account.Close()
	e.address.Close()
}

// sweepLocked drops descriptors whose time is over.
func (d *HSDir) sweepLocked(now time.Time) {
	if since := now.Sub(d.swept); since >= 0 && since < hsSweep {
		return
	}
	d.swept = now
	for _, e := range d.descs {
		if !now.Before(e.ends) {
			d.dropLocked(e)
		}
	}
}
