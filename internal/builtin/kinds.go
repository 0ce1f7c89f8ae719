package builtin

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ptspec"
)

// kind is a named way to wrap connections.
type kind interface {
	// client returns the transport for the arguments of one connection.
	client(args ptspec.Args) (fte.Transport, error)
	// server returns the transport of a bridge, and the arguments that its
	// clients need.
	server(opts ptspec.Args, stateDir string) (fte.Transport, ptspec.Args, error)
}

// Names are the transports, in the order in which they are announced.
var Names = []string{"chive", "fte"}

var kinds = map[string]kind{
	"chive": chiveTransport{},
	"fte":   classicTransport{},
}

// definitions are fteproxy's formats, whose tables are built once.
var definitions = sync.OnceValues(func() (*fte.Definitions, error) { return fte.Release("", false) })

// only refuses arguments that the transport does not know.
func only(a ptspec.Args, keys ...string) error {
	for k := range a {
		known := false
		for _, w := range keys {
			known = known || k == w
		}
		if !known {
			return fault.New(fault.Config, "argument %q is unknown", k)
		}
	}
	return nil
}

// chiveTransport is Chive's own protocol.
type chiveTransport struct{}

func (chiveTransport) protocol(a ptspec.Args) (p fte.Protocol, format string, err error) {
	defs, err := definitions()
	if err != nil {
		return p, "", err
	}
	if format = a["format"]; format == "" {
		format = fte.DefaultFormat
	}
	if p.Request, p.Response, err = defs.Pair(format); err != nil {
		return p, "", err
	}
	p.Mode, err = fte.ParseMode(a["mode"])
	switch a["pq"] {
	case "", "0":
	case "1":
		p.Hybrid = true
	default:
		return p, "", fault.New(fault.Config, "pq must be 0 or 1")
	}
	if err != nil {
		return p, "", err
	}
	p.Shape, err = shape(a)
	return p, format, err
}

// shape reads the arguments that change lengths and times; each side has its
// own.
func shape(a ptspec.Args) (s fte.Shape, err error) {
	for k, v := range map[string]*int{"pad-to": &s.Multiple, "pad-random": &s.Random} {
		if a[k] == "" {
			continue
		}
		if *v, err = strconv.Atoi(a[k]); err != nil {
			return s, fault.New(fault.Config, "%s must be a number of bytes: %w", k, err)
		}
	}
	if d := a["delay"]; d != "" {
		if s.Delay, err = time.ParseDuration(d); err != nil {
			return s, fault.New(fault.Config, "delay must be a time such as 5ms: %w", err)
		}
	}
	return s, nil
}

func (t chiveTransport) client(a ptspec.Args) (fte.Transport, error) {
	if err := only(a, "cert", "format", "mode", "pq", "pad-to", "pad-random", "delay"); err != nil {
		return nil, err
	}
	p, _, err := t.protocol(a)
	if err != nil {
		return nil, err
	}
	if p.Cert, err = fte.ParseCert(a["cert"]); err != nil {
		return nil, err
	}
	return p.Dialer()
}

func (t chiveTransport) server(a ptspec.Args, stateDir string) (fte.Transport, ptspec.Args, error) {
	if err := only(a, "format", "mode", "pq", "pad-to", "pad-random", "delay"); err != nil {
		return nil, nil, err
	}
	p, format, err := t.protocol(a)
	if err != nil {
		return nil, nil, err
	}
	if p.Keys, err = serverKeys(filepath.Join(stateDir, "chive_fte_keys")); err != nil {
		return nil, nil, err
	}
	srv, err := p.Acceptor()
	if err != nil {
		return nil, nil, err
	}
	tell := ptspec.Args{"cert": p.Keys[0].Cert().Bare(), "format": format}
	for _, k := range []string{"mode", "pq"} { // the options that the operator chooses for clients
		if v := a[k]; v != "" {
			tell[k] = v
		}
	}
	return srv, tell, keepBridgeLine(filepath.Join(stateDir, "chive_bridgeline.txt"), tell)
}

// keepBridgeLine writes the bridge line that the operator gives to users. Tor
// also gets the arguments, but sends them only to the bridge authority.
func keepBridgeLine(path string, tell ptspec.Args) error {
	args := make([]string, 0, len(tell))
	for k, v := range tell {
		args = append(args, k+"="+v)
	}
	slices.Sort(args)
	line := "Bridge chive ADDRESS:PORT FINGERPRINT " + strings.Join(args, " ") + "\n"
	if err := atomicfile.Write(path, []byte(line), atomicfile.Secret); err != nil {
		return fault.New(fault.Local, "writing the bridge line: %w", err)
	}
	return nil
}

// serverKeys reads a key file, and creates it if it does not exist.
func serverKeys(path string) ([]*fte.ServerKey, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		k, err := fte.NewServerKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		if err := atomicfile.Write(path, []byte(k.Line()+"\n"), atomicfile.Secret); err != nil {
			return nil, fault.New(fault.Local, "writing the server's key: %w", err)
		}
		return []*fte.ServerKey{k}, nil
	}
	if err != nil {
		return nil, fault.New(fault.Config, "the server's key: %w", err)
	}
	defer f.Close()
	return fte.ParseServerKeys(f)
}

// classicTransport is fteproxy's protocol.
type classicTransport struct{}

func (classicTransport) protocol(a ptspec.Args) (p fte.Classic, err error) {
	if err := only(a, "key", "format"); err != nil {
		return p, err
	}
	if k := a["key"]; k != "" {
		if p.Key, err = fte.ParseKey(k); err != nil {
			return p, err
		}
	}
	p.Format = a["format"]
	p.Definitions, err = definitions()
	return p, err
}

func (t classicTransport) client(a ptspec.Args) (fte.Transport, error) {
	p, err := t.protocol(a)
	if err != nil {
		return nil, err
	}
	return p.Dialer()
}

func (t classicTransport) server(a ptspec.Args, _ string) (fte.Transport, ptspec.Args, error) {
	p, err := t.protocol(a)
	if err != nil {
		return nil, nil, err
	}
	srv, err := p.Acceptor()
	return srv, a, err
}
