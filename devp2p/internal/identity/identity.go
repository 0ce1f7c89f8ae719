package identity

import (
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/gofrs/flock"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/program"
)

// Names in the data directory of chive-eth.
const (
	sidecarKey = "sidecar.key"
	relayKey   = "nodekey"
	onionDir   = "onion"
)

// Config says whose keys change.
type Config struct {
	// Dir is the data directory of a sidecar or a relay. The caller has locked it.
	Dir string
	// Geth is the data directory of the geth beside a sidecar. It must not run.
	Geth string
	// NodeKey is the file with the key of geth, or of the relay, if it is not where they keep it by themselves.
	NodeKey string
	// Now names the files that are kept.
	Now time.Time

	rename func(from, to string) error // for tests; nil: os.Rename
}

// Result is what others know the node by from now on.
type Result struct {
	Node     enode.ID // of geth, or the relay
	Onion    string   // ends in ".onion"
	Kept     []string // the old keys: files and directories
	Finished bool     // an interrupted change was finished, and no other was made
}

// New changes the keys, or finishes a change that was interrupted. If it fails, the old keys are in their places;
// if that fails, too, or the machine stops, Pending reports it until New is called again.
func New(cfg Config) (res Result, err error) {
	if err := cfg.Check(); err != nil {
		return res, err
	}
	if cfg.rename == nil {
		cfg.rename = os.Rename
	}
	places, err := cfg.places()
	if err != nil {
		return res, err
	}
	if cfg.Geth != "" {
		unlock, err := lockGeth(cfg.Geth)
		if err != nil {
			return res, err
		}
		defer func() { err = errors.Join(err, unlock()) }()
	}
	j, err := readJournal(cfg.Dir)
	switch {
	case err != nil:
		return res, err
	case j != nil:
		// The journal may name files that the flags do not: those of the directory that was given then.
		if err := j.matches(places); err != nil {
			return res, err
		}
		res.Finished = true
	default:
		if j, err = cfg.prepare(places); err != nil {
			return res, err
		}
	}
	if res.Kept, err = j.apply(cfg.Dir, cfg.rename); err != nil {
		return res, err
	}
	return res, res.read(places)
}

// Check refuses directories and files that are not what their flags say.
func (cfg Config) Check() error {
	if cfg.Geth != "" {
		if _, err := gethKey(cfg.Geth); err != nil {
			return err
		}
	}
	if cfg.NodeKey != "" {
		_, err := nodeID(cfg.NodeKey)
		if errors.Is(err, fs.ErrNotExist) {
			if is, e := there(cfg.NodeKey + fresh); e == nil && is {
				err = nil // a change was interrupted
			}
		}
		if err != nil {
			return fmt.Errorf("--node-key: %w", err)
		}
	}
	return nil
}

// places are where the keys are.
type places struct {
	node    string
	sidecar string // empty: this is a relay
	onion   string
}

func (p places) files() []string {
	if p.sidecar == "" {
		return []string{p.node, p.onion}
	}
	return []string{p.node, p.sidecar, p.onion} // geth's first: if it starts after an interruption, it has the new key
}

// places finds the keys, and refuses flags that do not go with the directory.
func (cfg Config) places() (p places, err error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return p, err
	}
	p = places{node: filepath.Join(dir, relayKey), onion: filepath.Join(dir, onionDir)}
	side, err := there(filepath.Join(dir, sidecarKey))
	if err != nil {
		return p, err
	}
	pending, err := Pending(dir)
	if err != nil {
		return p, err
	}
	switch {
	case side || pending && cfg.Geth != "": // after an interruption the sidecar's key may be missing
		p.sidecar = filepath.Join(dir, sidecarKey)
		if cfg.Geth == "" {
			return p, fmt.Errorf("--data-dir: %s is the directory of a sidecar, and the key of the geth beside it changes, too: --geth is needed, geth's data directory", dir)
		}
		if p.node, err = gethKey(cfg.Geth); err != nil {
			return p, err
		}
	case cfg.Geth != "":
		return p, fmt.Errorf("--geth: no sidecar has used %s", dir)
	}
	if cfg.NodeKey != "" {
		if p.node, err = filepath.Abs(cfg.NodeKey); err != nil {
			return p, err
		}
	}
	any := pending
	for _, path := range p.files() {
		is, err := there(path)
		if err != nil {
			return p, err
		}
		if is {
			any = true
			if err := ours(path); err != nil {
				return p, err
			}
		}
	}
	if !any {
		return p, fmt.Errorf("no relay or sidecar has used %s, so there is nothing to change", dir)
	}
	return p, nil
}

// gethKey is where geth keeps its key: as geth itself looks for it.
func gethKey(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	own := filepath.Join(dir, "geth")
	if info, err := os.Stat(own); err != nil || !info.IsDir() {
		return "", fmt.Errorf("--geth: %s is no data directory of geth: it has no folder geth", dir)
	}
	if old, err := there(filepath.Join(dir, "nodekey")); err != nil || old {
		return filepath.Join(dir, "nodekey"), err // of a geth of 2015, and still taken
	}
	return filepath.Join(own, "nodekey"), nil
}

// lockGeth keeps geth from starting. It fails if geth runs.
func lockGeth(dir string) (unlock func() error, err error) {
	l := flock.New(filepath.Join(dir, "geth", "LOCK"))
	got, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("--geth: its lock: %w", err)
	}
	if !got {
		return nil, fmt.Errorf("--geth: the geth of %s runs: stop it first: %w", dir, program.ErrInUse)
	}
	return l.Unlock, nil
}

// prepare makes new keys beside the old ones, and writes down what has to be done.
func (cfg Config) prepare(p places) (*journal, error) {
	j := &journal{Time: cfg.Now.UTC().Format("20060102T150405Z"), Places: p.files()}
	fail := func(err error) (*journal, error) { return nil, errors.Join(err, j.clean()) }
	if err := j.clean(); err != nil { // of an earlier call that was interrupted before it began to change
		return nil, err
	}
	for _, path := range []string{p.node, p.sidecar} {
		if path == "" {
			continue
		}
		key, err := crypto.GenerateKey()
		if err == nil {
			err = writeKey(path+fresh, path, key)
		}
		if err != nil {
			return fail(fmt.Errorf("a new key: %w", err))
		}
	}
	_, unlock, err := chive.OpenOnionKey(p.onion + fresh) // makes it
	if err == nil {
		err = unlock()
	}
	if err != nil {
		return fail(fmt.Errorf("a new key: %w", err))
	}
	if err := j.write(cfg.Dir); err != nil {
		return fail(err)
	}
	return j, nil
}

// maxKey bounds the file of a key, in bytes.
const maxKey = 1 << 10

// writeKey writes a key in hexadecimal, with "0x" if the old one has it.
func writeKey(path, old string, key *ecdsa.PrivateKey) error {
	prefix := ""
	raw, err := program.ReadRegular(old, maxKey)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if strings.HasPrefix(string(raw), "0x") {
		prefix = "0x"
	}
	return program.WriteFile(path, []byte(prefix+hex.EncodeToString(crypto.FromECDSA(key))), 0o600)
}

// read fills in the names that the new keys give.
func (r *Result) read(p places) error {
	var err error
	if r.Node, err = nodeID(p.node); err != nil {
		return err
	}
	onion, unlock, err := chive.OpenOnionKey(p.onion)
	if err != nil {
		return err
	}
	r.Onion = onion.Address()
	return unlock()
}

// nodeID reads the file of a node's key, and returns the ID that others know it by.
func nodeID(path string) (enode.ID, error) {
	raw, err := program.ReadRegular(path, maxKey)
	if err != nil {
		return enode.ID{}, err
	}
	key, err := crypto.HexToECDSA(strings.TrimPrefix(strings.TrimSpace(string(raw)), "0x"))
	if err != nil {
		return enode.ID{}, fmt.Errorf("%s: it is no key in hexadecimal: %w", path, err)
	}
	return enode.PubkeyToIDV4(&key.PublicKey), nil
}

// there reports whether a file or directory exists.
func there(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
