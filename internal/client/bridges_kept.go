package client

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// The descriptors of bridges are kept over a restart, as C tor's clients keep them: else a bridge sees by the first cell that
// its client does not know its onion key. They are what the bridges have signed, one after the other.

const (
	// maxKeptAge is how long after its publication a descriptor of before is used. C tor takes five days, too.
	maxKeptAge = 5 * 24 * time.Hour
	// maxKept bounds the file, in bytes.
	maxKept = 4 << 20
)

// keptFile returns the file of the descriptors; empty: none is kept.
func (bs *bridges) keptFile() string {
	if bs.c.cfg.Dir == "" {
		return ""
	}
	return filepath.Join(bs.c.cfg.Dir, "bridge-descriptors")
}

// recall gives the bridges that have a fingerprint, and no descriptor, the ones of before. What cannot be used is asked for
// anew.
func (bs *bridges) recall() {
	file := bs.keptFile()
	if file == "" {
		return
	}
	text, err := atomicfile.Read(file, maxKept)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			bs.c.log.Info("the descriptors of bridges cannot be read, and are asked for anew", "err", err)
		}
		return
	}
	now := time.Now()
	kept := map[ident.RSAID]*netdoc.RouterDesc{}
	netdoc.ParseRouterDescs(text, now, func(d *netdoc.RouterDesc, err error) {
		if err == nil && !d.Ntor.IsZero() && now.Sub(d.Published) < maxKeptAge {
			kept[d.RSA] = d
		}
	})
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, b := range bs.all {
		// Who has the line's fingerprint has signed it, so that it cannot be another bridge's.
		if d := kept[b.id.RSA]; d != nil && b.desc == nil && (b.id.Ed.IsZero() || b.id.Ed.Equal(d.Ed)) {
			b.desc, b.recalled = d, true
			b.id = ident.RelayID{RSA: d.RSA, Ed: d.Ed}
		}
	}
}

// save keeps the descriptors of the bridges that there are.
func (bs *bridges) save() {
	file := bs.keptFile()
	if file == "" {
		return
	}
	bs.saving.Lock() // an older list must not replace a newer one
	defer bs.saving.Unlock()
	if err := atomicfile.Write(file, bs.texts(), atomicfile.Secret); err != nil {
		bs.c.log.Warn("the descriptors of bridges cannot be saved", "err", err)
	}
}

// texts returns the descriptors one after the other.
func (bs *bridges) texts() (text []byte) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, b := range bs.all {
		if b.desc != nil && len(text)+len(b.desc.Text) < maxKept {
			text = append(append(text, b.desc.Text...), '\n') // an empty line between two does no harm
		}
	}
	return text
}

// disown forgets a descriptor of before whose bridge answers with an error: its keys may be others now. A bridge that cannot be
// reached says nothing about it.
func (bs *bridges) disown(b *bridge, err error) {
	_, connecting := unreachable(err)
	if fault.Is(err, fault.Closed) || fault.Is(err, fault.Network) || connecting && fault.Is(err, fault.Timeout) {
		return
	}
	bs.mu.Lock()
	forget := b.recalled
	if forget {
		b.desc, b.recalled, b.id = nil, false, ident.RelayID{RSA: b.line.Fingerprint}
	}
	bs.mu.Unlock()
	if forget {
		bs.publish()
	}
}
