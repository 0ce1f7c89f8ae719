package tord

import (
	"crypto/ecdh"
	"encoding/base32"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsclient"
)

// onionKey is a key of ONION_CLIENT_AUTH_ADD that is in no file.
type onionKey struct {
	control.OnionKey
	key chive.OnionClientKey
}

// maxOnionKeys bounds the keys of controllers that are in no file.
const maxOnionKeys = 256

// keySuffix is the end of the names of files of ClientOnionAuthDir.
const keySuffix = ".auth_private"

// AddOnionKey implements control.Engine.
func (t *tor) AddOnionKey(k control.OnionKey) (replaced bool, err error) {
	k.Address = strings.ToLower(k.Address)
	text := k.Address + ":descriptor:x25519:" + base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(k.Secret[:])
	key, err := chive.ParseOnionClientKey(text)
	if err != nil {
		return false, ctlwire.Errorf(ctlwire.BadArgument, "Invalid v3 address %q", k.Address)
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	now, node := t.plan()
	cannot := ctlwire.Errorf(ctlwire.BadConfig, "Unable to store creds for %q", k.Address)
	_, was := t.onionKeys[k.Address]
	files, err := keyFiles(now, k.Address)
	if err != nil {
		t.log.Warn("ONION_CLIENT_AUTH_ADD: the directory of keys cannot be read", "err", err)
		return false, cannot
	}
	was = was || len(files) > 0
	if k.Permanent {
		if err := t.storeKeyLocked(now, k.Address, text, files); err != nil {
			t.log.Warn("ONION_CLIENT_AUTH_ADD: the key was not stored", "err", err)
			return false, cannot
		}
		return was, t.reloadKeysLocked(k.Address)
	}
	if len(files) > 0 || len(t.onionKeys) >= maxOnionKeys && !was {
		t.log.Warn("ONION_CLIENT_AUTH_ADD: a file of ClientOnionAuthDir has a key for the service, or there are too many keys in no file", "most", maxOnionKeys)
		return false, cannot
	}
	if node != nil {
		if err := node.AddOnionKey(key); err != nil {
			return false, err
		}
	}
	if t.onionKeys == nil {
		t.onionKeys = map[string]onionKey{}
	}
	t.onionKeys[k.Address] = onionKey{k, key}
	return was, nil
}

// storeKeyLocked writes a key's file in ClientOnionAuthDir, in place of others for the same service.
func (t *tor) storeKeyLocked(now *plan, address, text string, others []string) error {
	dir := now.conf.one("ClientOnionAuthDir")
	if dir == "" {
		return fault.New(fault.Config, "ClientOnionAuthDir is not set")
	}
	dir, err := atHome(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, address+keySuffix)
	if err := atomicfile.Write(path, []byte(text+"\n"), atomicfile.Secret); err != nil {
		return err
	}
	for _, other := range others {
		if other != path {
			err = errors.Join(err, os.Remove(other))
		}
	}
	return err
}

// reloadKeysLocked has the client read the files again. The key of a controller for the service counts no more.
func (t *tor) reloadKeysLocked(address string) error {
	now, node := t.plan()
	_, was := t.onionKeys[address]
	delete(t.onionKeys, address)
	if node == nil {
		return nil
	}
	if was {
		if err := node.RemoveOnionKey(address + ".onion"); err != nil {
			return err
		}
	}
	_, err := node.Reload(now.settings)
	return err
}

// RemoveOnionKey implements control.Engine.
func (t *tor) RemoveOnionKey(address string) (bool, error) {
	address = strings.ToLower(address)
	t.changing.Lock()
	defer t.changing.Unlock()
	now, _ := t.plan()
	files, err := keyFiles(now, address)
	if err != nil {
		return false, err
	}
	for _, path := range files {
		if err := os.Remove(path); err != nil {
			return false, err
		}
	}
	if _, was := t.onionKeys[address]; !was && len(files) == 0 {
		return false, nil
	}
	return true, t.reloadKeysLocked(address)
}

// OnionKeys implements control.Engine.
func (t *tor) OnionKeys() []control.OnionKey {
	t.changing.Lock()
	defer t.changing.Unlock()
	var out []control.OnionKey
	for _, k := range t.onionKeys {
		out = append(out, k.OnionKey)
	}
	now, node := t.plan()
	var stored hsclient.Keys
	if node != nil {
		stored = node.Onions().OnionKeys()
	} else if dir := now.conf.one("ClientOnionAuthDir"); dir != "" {
		stored = hsclient.Keys{}
		if err := stored.AddDir(dir); err != nil {
			t.log.Warn("ONION_CLIENT_AUTH_VIEW: the directory of keys cannot be read", "err", err)
		}
	}
	for id, secret := range stored {
		if address := onionName(id); t.onionKeys[address].key.IsZero() {
			out = append(out, permanent(address, secret))
		}
	}
	return out
}

func permanent(address string, secret *ecdh.PrivateKey) control.OnionKey {
	return control.OnionKey{Address: address, Secret: [32]byte(secret.Bytes()), Permanent: true}
}

// keyFiles returns the files of ClientOnionAuthDir that have a key for a service.
func keyFiles(now *plan, address string) (out []string, err error) {
	dir := now.conf.one("ClientOnionAuthDir")
	if dir == "" {
		return nil, nil
	}
	if dir, err = atHome(dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		keys := hsclient.Keys{}
		if strings.HasSuffix(e.Name(), keySuffix) && keys.AddFile(path) == nil && keys[identity(address)] != nil {
			out = append(out, path)
		}
	}
	return out, nil
}
