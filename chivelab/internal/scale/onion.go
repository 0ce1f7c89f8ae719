package scale

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// The sizes of descriptors of onion services: a large one, and nearly the largest that there may be.
const (
	onionBytes    = 30_000
	badOnionBytes = netdoc.MaxHSDescriptor - 2000
)

// target is the relay for a circuit's next hop.
func (p peer) target() linkspec.Target {
	return linkspec.Target{RelayID: p.id, Addrs: []netip.AddrPort{p.or}, Ntor: p.ntor, Proto: p.proto}
}

// learn completes what is known of a relay, by its descriptor at an authority.
func (p *peer) learn(ctx context.Context, dirPort netip.AddrPort) error {
	a, err := overHTTP(ctx, http.MethodGet, "http://"+dirPort.String()+"/tor/server/fp/"+p.id.RSA.String(), netip.Addr{}, nil)
	if err != nil {
		return err
	}
	d, err := netdoc.ParseRouterDesc(a.body, time.Now())
	if err != nil {
		return err
	}
	p.ntor = d.Ntor
	p.proto, err = protover.Parse(d.Proto)
	return err
}

// onionDirs measures both relays as directories of onion services. Uploads go through the other relay: a directory takes
// none from a client's own link.
func onionDirs(ctx context.Context, p *Plan, peers []peer) (Part, error) {
	var all []*figures
	for i, to := range peers {
		f, err := measureOnions(ctx, p, to, peers[1-i])
		if err != nil {
			return Part{}, fault.New(fault.KindOf(err), "onion directory: %s: %w", to.name, err)
		}
		all = append(all, f)
	}
	return join(fmt.Sprintf("a directory of onion services: %d descriptors of %d kB", p.Onions, onionBytes/1000), all...), nil
}

func measureOnions(ctx context.Context, p *Plan, to, via peer) (*figures, error) {
	f := &figures{name: to.name}
	if err := measureUploads(ctx, p, to, via, f, ""); err != nil || p.Hostile == 0 {
		return f, err
	}
	end := p.hostile(ctx, to, atATime, f, onionsAtBound(via), endless)
	defer end()
	return f, measureUploads(ctx, p, to, via, f, besideHostile)
}

// measureUploads uploads descriptors and fetches them. Its lines begin with a prefix.
func measureUploads(ctx context.Context, p *Plan, to, via peer, f *figures, prefix string) error {
	p.Progress(fmt.Sprintf("%s: %suploading %d descriptors of onion services", to.name, prefix, p.Onions))
	path := []linkspec.Target{via.target(), to.target()}
	a, err := newAsker(ctx, via, source(0))
	if err != nil {
		return err
	}
	defer a.close()
	names := make([]string, p.Onions)
	kept := make([]bool, p.Onions)
	base, err := rest(ctx, to, p.Settle)
	if err != nil {
		return err
	}
	var took, fetched atomic.Int64
	// turn does one request on a circuit of its own, as services and clients do.
	turn := func(ctx context.Context, line string, body []byte) (answer, error) {
		one := asker{load: a.load, ch: a.ch, path: path, each: 1}
		defer func() {
			if one.circ != nil {
				one.circ.Close(0, errOver)
			}
		}()
		return one.ask(ctx, line, "", body)
	}
	before, err := proc.Of(to.pid)
	if err != nil {
		return err
	}
	var failed atomic.Pointer[error]
	err = each(ctx, p.Onions, func(ctx context.Context, i int) error {
		name, text, err := onionDescriptor(onionBytes)
		if err != nil {
			return err
		}
		names[i] = name
		got, err := turn(ctx, "POST "+dirserver.HSPublishPath, text)
		if err == nil && got.status == http.StatusOK {
			kept[i] = true
			took.Add(1)
		} else {
			if err == nil {
				err = fault.New(fault.Directory, "status %d", got.status)
			}
			failed.Store(&err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	after, err := proc.Of(to.pid)
	if err != nil {
		return err
	}
	whole, err := rest(ctx, to, p.Settle)
	if err != nil {
		return err
	}
	p.Progress(fmt.Sprintf("%s: %sfetching them", to.name, prefix))
	err = each(ctx, p.Onions, func(ctx context.Context, i int) error {
		got, err := turn(ctx, "GET /tor/hs/3/"+names[i], nil)
		if err == nil && got.status == http.StatusOK && bytes.HasPrefix(got.body, []byte("hs-descriptor 3\n")) {
			fetched.Add(1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if e := failed.Load(); e != nil {
		p.Progress(fmt.Sprintf("%s: a descriptor was not taken: %v", to.name, *e))
	}
	n := max(1, p.Onions)
	f.must(prefix+"descriptors taken", int(took.Load()), p.Onions)
	f.must(prefix+"descriptors that can be fetched", int(fetched.Load()), p.Onions)
	f.add(prefix+"a descriptor, ms of a processor", float64(after.CPU-before.CPU)/1e6/float64(n))
	f.add(prefix+"a descriptor's memory, kB", float64(whole.RSS-base.RSS)/1e3/float64(n))
	f.add(prefix+"RSS with all, MB", float64(whole.RSS)/1e6)
	return nil
}

// onionsAtBound uploads descriptors of new services without end, nearly as large as they may be.
func onionsAtBound(via peer) attacker {
	return func(ctx context.Context, to peer, i int, did *atomic.Int64) {
		again(ctx, func() {
			a, err := newAsker(ctx, via, badAddr(i))
			if err != nil {
				return
			}
			defer a.close()
			a.path, a.each = append(a.path, to.target()), 1
			for a.ch.Err() == nil && pause(ctx, 10*time.Millisecond) == nil {
				_, text, err := onionDescriptor(badOnionBytes)
				if err != nil {
					return
				}
				_, _ = a.ask(ctx, "POST "+dirserver.HSPublishPath, "", text) // refused or not, the next one follows
				did.Add(1)
			}
		})
	}
}

// onionDescriptor makes the descriptor of a new service, of a size. What only clients can read is random. It also returns the name by
// which clients ask for it.
func onionDescriptor(size int) (name string, text []byte, err error) {
	key, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		return "", nil, err
	}
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", nil, fault.Wrap(fault.Local, err)
	}
	c := cert.Ed25519{Type: cert.BlindedVSigning, Expires: time.Now().Add(54 * time.Hour), KeyType: cert.KeyEd25519, Key: cert.IdentityOf(signing), Signer: key.Public(), HasSigner: true}
	b := []byte("hs-descriptor 3\ndescriptor-lifetime 180\ndescriptor-signing-key-cert\n")
	b = netdoc.AppendObject(b, "ED25519 CERT", c.Encode(key.Sign))
	b = append(b, "revision-counter 1\nsuperencrypted\n"...)
	super := make([]byte, (size-len(b)-200)*48/65)
	if _, err := rand.Read(super); err != nil {
		return "", nil, fault.Wrap(fault.Local, err)
	}
	b = netdoc.AppendObject(b, "MESSAGE", super)
	sig := ed25519.Sign(signing, append([]byte("Tor onion service descriptor sig v3"), b...))
	pub := key.Public()
	return base64.RawStdEncoding.EncodeToString(pub[:]), append(b, "signature "+base64.RawStdEncoding.EncodeToString(sig)+"\n"...), nil
}
