package scale

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/chivelab/internal/madenet"
	internal "github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/netfile"
)

// authorities measures how an authority of each program takes the descriptors of a made-up network. C tor's is of the small network;
// Chive's is alone in one of its own.
func (s *site) authorities(ctx context.Context, n *madenet.Net) (Part, error) {
	f := []*figures{{name: torName}, {name: chiveName}}
	if err := s.twoAuthorities(ctx, n, "auth2", "", f); err != nil {
		return Part{}, err
	}
	if s.plan.Hostile > 0 { // others: these have all descriptors
		if err := s.twoAuthorities(ctx, n, "auth1", besideHostile, f); err != nil {
			return Part{}, err
		}
	}
	return join(fmt.Sprintf("an authority: %d descriptors of relays", s.plan.Relays), f...), nil
}

// twoAuthorities measures an authority of C tor's and a new one of Chive's. The lines begin with a prefix.
func (s *site) twoAuthorities(ctx context.Context, n *madenet.Net, node, prefix string, f []*figures) error {
	chive, kid, err := s.startAuthority(ctx, "chive"+node)
	if kid != nil {
		defer kid.Stop()
	}
	if err != nil {
		return err
	}
	stock := s.tor.Node(node)
	for i, to := range []peer{{name: torName, pid: stock.PID(), dir: stock.DirPort}, chive} {
		if err := measureAuthority(ctx, s.plan, to, n, f[i], prefix); err != nil {
			return fault.New(fault.KindOf(err), "authority: %s: %w", to.name, err)
		}
	}
	return nil
}

// measureAuthority uploads all descriptors, each from an address that has only a few of them. Its lines begin with a prefix.
func measureAuthority(ctx context.Context, p *Plan, to peer, n *madenet.Net, f *figures, prefix string) error {
	p.Progress(fmt.Sprintf("%s: %suploading %d descriptors of relays", to.name, prefix, p.Relays))
	descs := n.Descriptors()
	base, err := rest(ctx, to, p.Settle)
	if err != nil {
		return err
	}
	end := func() {}
	if prefix != "" {
		end = p.hostile(ctx, to, atATime, f, junk)
		defer end()
	}
	before, err := proc.Of(to.pid)
	if err != nil {
		return err
	}
	var took atomic.Int64
	var failed atomic.Pointer[error]
	url := "http://" + to.dir.String()
	err = each(ctx, len(descs), func(ctx context.Context, i int) error {
		_, err := overHTTP(ctx, http.MethodPost, url+"/tor/", source(i), descs[i].Text)
		if err == nil {
			took.Add(1)
		} else {
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
	end()
	if e := failed.Load(); e != nil {
		p.Progress(fmt.Sprintf("%s: a descriptor was not taken: %v", to.name, *e))
	}
	whole, err := rest(ctx, to, p.Settle)
	if err != nil {
		return err
	}
	got, err := overHTTP(ctx, http.MethodGet, url+"/tor/server/all", netip.Addr{}, nil)
	if err != nil {
		return err
	}
	made := map[[20]byte]bool{}
	for _, d := range descs {
		made[d.Digest] = true
	}
	kept := 0
	netdoc.ParseRouterDescs(got.body, time.Now(), func(d *netdoc.RouterDesc, err error) {
		if err == nil && made[d.Digest] {
			kept++
		}
	})
	one := float64(max(1, len(descs)))
	f.must(prefix+"descriptors taken", int(took.Load()), len(descs))
	f.must(prefix+"descriptors kept", kept, len(descs))
	f.add(prefix+"a descriptor, ms of a processor", float64(after.CPU-before.CPU)/1e6/one)
	f.add(prefix+"a descriptor's memory, kB", float64(whole.RSS-base.RSS)/1e3/one)
	f.add(prefix+"RSS with all, MB", float64(whole.RSS)/1e6)
	return nil
}

// junkBytes is as much as an authority takes of a descriptor.
const junkBytes = 20_000

// junk uploads what is no descriptor, without end.
func junk(ctx context.Context, to peer, i int, did *atomic.Int64) {
	b := bytes.Repeat([]byte("router nobody 192.0.2.1 9001 0 0\n"), junkBytes/33)
	again(ctx, func() {
		for pause(ctx, 10*time.Millisecond) == nil {
			_, _ = overHTTP(ctx, http.MethodPost, "http://"+to.dir.String()+"/tor/", badAddr(i), b) // it is refused, and the next one follows
			did.Add(1)
		}
	})
}

// startAuthority runs an authority of Chive's.
func (s *site) startAuthority(ctx context.Context, nickname string) (to peer, kid *child.Process, err error) {
	s.plan.Progress("starting an authority of Chive's")
	to.name = chiveName
	here := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	var at [2]netip.AddrPort
	for i := range at {
		port, err := s.tor.FreePort()
		if err != nil {
			return to, nil, err
		}
		at[i] = netip.AddrPortFrom(here, port)
	}
	to.or, to.dir = at[0], at[1]
	identity, err := rsa.GenerateKey(rand.Reader, 2048) // smaller than an authority's, which takes long to make
	if err != nil {
		return to, nil, fault.Wrap(fault.Local, err)
	}
	keys, err := internal.Certify(rand.Reader, identity, to.dir, time.Now(), 12)
	if err == nil {
		err = keys.AddRelayIdentity(rand.Reader)
	}
	dir := filepath.Join(s.dir, nickname)
	if err == nil {
		err = keys.Save(filepath.Join(dir, "keys"))
	}
	if err != nil {
		return to, nil, err
	}
	to.id = ident.RelayID{RSA: netdoc.RSADigest(&keys.RSA.PublicKey), Ed: keys.Ed.Public()}
	text, err := netfile.Format(&netdir.Network{Name: "scale", Testing: netdir.Testing{AllowPrivateAddresses: true},
		Authorities: []netdir.Authority{{Nickname: nickname, V3Ident: keys.Cert.Identity, RSA: to.id.RSA, Ed: to.id.Ed,
			ORPorts: []netip.AddrPort{to.or}, DirPort: to.dir}}})
	if err != nil {
		return to, nil, err
	}
	network := filepath.Join(dir, "network.toml")
	if err := os.WriteFile(network, text, 0o600); err != nil {
		return to, nil, fault.Wrap(fault.Local, err)
	}
	kid, _, err = child.Start(ctx, s.plan.Log, s.plan.Program, "authority", "--network", network, "--data-dir", dir, "--nickname", nickname, "--contact", "lab",
		"--orport", to.or.String(), "--dirport", to.dir.String(), "--testing", "--assume-reachable")
	if kid != nil {
		to.pid = kid.PID()
	}
	return to, kid, err
}

// badAddr is badSource's address.
func badAddr(i int) netip.Addr {
	a, _ := netip.AddrFromSlice(badSource(i).IP.To4())
	return a
}

// overHTTP asks a DirPort, from an address if it is valid. Any other answer than 200 is an error.
func overHTTP(ctx context.Context, method, url string, from netip.Addr, body []byte) (out answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	var d net.Dialer
	if from.IsValid() {
		d.LocalAddr = &net.TCPAddr{IP: from.AsSlice()}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return out, fault.Wrap(fault.Local, err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true, DisableCompression: true}}
	res, err := client.Do(req)
	if err != nil {
		return out, fault.Wrap(fault.Network, err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(http.MaxBytesReader(nil, res.Body, maxAnswer)); err != nil {
		return out, fault.Wrap(fault.Network, err)
	}
	if res.StatusCode != http.StatusOK {
		return out, fault.New(fault.Directory, "%s", res.Status)
	}
	return answer{body: b.Bytes(), status: res.StatusCode}, nil
}
