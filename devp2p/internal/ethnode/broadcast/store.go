package broadcast

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/program"
)

// fileName is the file of transactions that are not done.
const fileName = "broadcast.json"

// maxFile bounds it: the transactions in hexadecimal, and what stands around them.
const maxFile = 2*MaxBytes + MaxTransactions*64*256

// saved is a transaction in the file. The peers that got it are kept, so that it is not
// taken for seen when one of them repeats it.
type saved struct {
	Raw     hexutil.Bytes     `json:"raw"`
	Added   time.Time         `json:"added"`
	Targets map[enode.ID]bool `json:"targets,omitempty"`
}

func (q *Queue) path() string { return filepath.Join(q.config.Dir, fileName) }

// load reads the file. One that cannot be read is an error: it may hold transactions.
func (q *Queue) load() error {
	if q.config.Dir == "" {
		return nil
	}
	raw, err := program.ReadRegular(q.path(), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	var all []saved
	if err := json.Unmarshal(raw, &all); err != nil {
		return fmt.Errorf("broadcast: %s: %w", q.path(), err)
	}
	now := time.Now()
	for _, s := range all {
		tx := new(types.Transaction)
		if err := tx.UnmarshalBinary(s.Raw); err != nil {
			return fmt.Errorf("broadcast: %s: %w", q.path(), err)
		}
		from, err := sender(tx)
		if err != nil {
			return fmt.Errorf("broadcast: %s: %w", q.path(), err)
		}
		if q.txs[tx.Hash()] != nil || !q.room(len(s.Raw)) {
			continue
		}
		e := &entry{tx: tx, from: from, raw: s.Raw, added: s.Added, state: Waiting, why: "kept from before the start", next: now.Add(between(startWait)), targets: s.Targets}
		if e.targets == nil {
			e.targets = make(map[enode.ID]bool)
		}
		q.put(e)
	}
	return nil
}

// save writes the file if its content has changed.
func (q *Queue) save() error {
	if q.config.Dir == "" {
		return nil
	}
	q.saving.Lock()
	defer q.saving.Unlock()
	q.mu.Lock()
	all := []saved{}
	for _, h := range q.order {
		if e := q.txs[h]; !e.state.done() {
			targets := make(map[enode.ID]bool, len(e.targets))
			for id, ok := range e.targets {
				targets[id] = ok
			}
			all = append(all, saved{e.raw, e.added, targets})
		}
	}
	q.mu.Unlock()
	raw, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	if string(raw) == q.written {
		return nil
	}
	if len(all) == 0 {
		if err := os.Remove(q.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("broadcast: %w", err)
		}
	} else if err := program.WriteFile(q.path(), raw, 0o600); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	q.written = string(raw)
	return nil
}
