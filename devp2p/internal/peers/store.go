package peers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/program"
)

const (
	storeVersion = 1
	maxStore     = 4 << 20 // bytes of the file: more than maxNodes of the longest records
	saveEvery    = 5 * time.Minute
)

type storeFile struct {
	Version int         `json:"version"`
	Nodes   []storeNode `json:"nodes"`
}

type storeNode struct {
	Node      string    `json:"node"` // "enr:..." or "enode://..."
	Source    string    `json:"source"`
	Score     float64   `json:"score"`
	Failures  int       `json:"failures"`
	Connected time.Time `json:"connected,omitzero"`
}

func (m *Manager) storePath() string { return filepath.Join(m.cfg.Dir, "peers.json") }

// load reads the nodes that were kept. A file that this package cannot have written is
// refused as a whole. Nodes that the policy does not allow are left out.
func (m *Manager) load(path string) error {
	data, err := program.ReadRegular(path, maxStore)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	nodes, err := parseStore(data)
	if err != nil {
		return fmt.Errorf("peers: %s: %w; remove the file to begin with no nodes", path, err)
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, sn := range nodes {
		n := enode.MustParse(sn.Node) // parseStore has parsed it
		if n.ID() == m.id {
			continue
		}
		if _, err := m.cfg.Transport.Route(n); err != nil {
			continue // of another policy
		}
		host, _, err := devp2p.OnionOf(n)
		if err == nil {
			if m.onions[host] >= maxPerOnion {
				continue
			}
			m.onions[host]++
		}
		m.table[n.ID()] = &entry{
			node: n, signed: signed(n), onion: host, source: sn.Source, failures: sn.Failures, connected: sn.Connected,
			score: score{value: sn.Score, at: now},
		}
	}
	return nil
}

// parseStore reads and checks the file.
func parseStore(data []byte) ([]storeNode, error) {
	var f storeFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("it is not a list of nodes: %w", err)
	}
	if d.More() {
		return nil, errors.New("there is something after the list of nodes")
	}
	if f.Version != storeVersion {
		return nil, fmt.Errorf("version %d, not %d", f.Version, storeVersion)
	}
	if len(f.Nodes) > maxNodes {
		return nil, fmt.Errorf("%d nodes, more than %d", len(f.Nodes), maxNodes)
	}
	seen := map[enode.ID]bool{}
	for i, sn := range f.Nodes {
		n, err := enode.Parse(enode.ValidSchemes, sn.Node)
		switch {
		case err != nil:
		case seen[n.ID()]:
			err = errors.New("it is there twice")
		case sn.Score > scoreMost || sn.Score < 2*scoreBan:
			err = fmt.Errorf("score %v", sn.Score)
		case sn.Failures < 0 || sn.Failures > 1<<20:
			err = fmt.Errorf("%d failures", sn.Failures)
		case len(sn.Source) > 100:
			err = errors.New("its source is too long")
		}
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", i+1, err)
		}
		seen[n.ID()] = true
	}
	return f.Nodes, nil
}

// save writes the nodes, if they have changed.
func (m *Manager) save(path string) error {
	now := time.Now()
	f := storeFile{Version: storeVersion, Nodes: []storeNode{}}
	m.mu.Lock()
	if !m.dirty {
		m.mu.Unlock()
		return nil
	}
	m.dirty = false
	for _, e := range m.table {
		if e.node.Record().IdentityScheme() == "null" {
			continue // it has no text that can be read again; its source tells it again
		}
		source := e.source
		f.Nodes = append(f.Nodes, storeNode{
			Node: e.node.String(), Source: source[:min(len(source), 100)], Failures: min(e.failures, 1<<20), Connected: e.connected.Round(0),
			Score: max(min(e.score.now(now, scoreHalf), scoreMost), 2*scoreBan),
		})
	}
	m.mu.Unlock()
	slices.SortFunc(f.Nodes, func(a, b storeNode) int { return cmp.Compare(a.Node, b.Node) })
	data, err := json.MarshalIndent(f, "", "\t")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = program.WriteFile(path, append(data, '\n'), 0o600)
	}
	if err != nil {
		m.mu.Lock()
		m.dirty = true
		m.mu.Unlock()
		return fmt.Errorf("peers: %w", err)
	}
	return nil
}

// saveLoop saves from time to time until ctx ends.
func (m *Manager) saveLoop(ctx context.Context) {
	if m.cfg.Dir == "" {
		return
	}
	t := time.NewTicker(saveEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := m.save(m.storePath()); err != nil {
				m.log.Warn("the nodes could not be kept", "err", err)
			}
		}
	}
}
