package shadowfile

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"debug/elf"
	"encoding/pem"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// Begin is when the simulator's clocks begin.
var Begin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// months are how long authorities' certificates are valid. They begin on the real clock: nobody minds that, as only their
// end is looked at.
const months = 12

// MakeAuthority makes an authority's keys in a new directory, in the files of C tor, which Chive reads too. They are made
// ahead, as all nodes must know them.
func MakeAuthority(dir, name string, orPort, dirPort netip.AddrPort) (a netdir.Authority, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return a, fault.Wrap(fault.Local, err)
	}
	k, err := authority.MakeKeys(dir, dirPort.String(), months, nil)
	if err != nil {
		return a, fault.New(fault.KindOf(err), "the keys of %s: %w", name, err)
	}
	a.Nickname, a.ORPorts, a.DirPort = name, []netip.AddrPort{orPort}, dirPort
	if a.V3Ident, err = ident.ParseRSAID(k.V3Ident); err != nil {
		return a, err
	}
	if a.RSA, err = ident.ParseRSAID(k.RSA); err != nil {
		return a, err
	}
	a.Ed, err = ident.ParseEd25519ID(k.Ed25519)
	return a, err
}

// MakeRelay makes the key of a relay by which others name it (tor-spec 1.1), in a new directory.
func MakeRelay(dir string) (ident.RSAID, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ident.RSAID{}, fault.Wrap(fault.Local, err)
	}
	k, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		return ident.RSAID{}, fault.Wrap(fault.Local, err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})
	return netdoc.RSADigest(&k.PublicKey), fault.Wrap(fault.Local, os.WriteFile(filepath.Join(dir, "secret_id_key"), text, 0o600))
}

// CanRun reports why the simulator cannot run a program: it needs the dynamic linker to get into it.
func CanRun(name string) error {
	f, err := elf.Open(name)
	if err != nil {
		return fault.New(fault.Config, "%s: Shadow runs programs of Linux: %w", name, err)
	}
	defer f.Close()
	for _, s := range f.Progs {
		if s.Type == elf.PT_INTERP {
			return nil
		}
	}
	return fault.New(fault.Config, "%s is not dynamically linked, and Shadow runs no other program; %s", name, Hint)
}

// Hint says how to get a program that the simulator runs.
const Hint = "make shadow builds bin/shadow/chivelab, which is"
