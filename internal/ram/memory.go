// Package ram says how much memory the machine, or the container, has for this process, and how much of it peers
// of a relay may take by default.
package ram

import (
	"fmt"
	"math/bits"
	"sync"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/chivenet/chive/internal/account"
)

// Memory is what the process may use.
type Memory struct {
	Bytes     uint64 // 0: nobody knows
	Container bool   // the bound is a container's, or a service's, and not the machine's memory
}

// find asks the system, once: a process that has confined itself cannot ask any more, and a default must not change
// at a reload.
var find = sync.OnceValue(func() Memory { return least(memlimit.FromSystem, memlimit.FromCgroup) })

// least returns the smaller one of the machine's memory and the container's. What cannot be read does not count: there
// may be no container, and the machine's memory is a good default still.
func least(system, container func() (uint64, error)) Memory {
	var m Memory
	if n, err := system(); err == nil {
		m.Bytes = n
	}
	if n, err := container(); err == nil && n > 0 && (n < m.Bytes || m.Bytes == 0) {
		m = Memory{n, true}
	}
	return m
}

const (
	// large is how much memory is enough for more than one relay.
	large = 8 << 30
	// maxDefault is the most that peers may take without a word from the operator; most32 is that of programs of 32 bits.
	maxDefault = 8 << 30
	most32     = 2 << 30
)

// defaultOf returns what peers of a relay may take by default: C tor's rule for MaxMemInQueues. Unlike C tor it never
// promises more than there is: C tor takes 256 MB on a machine that has less.
func (m Memory) defaultOf(wordBits int) uint64 {
	most := uint64(maxDefault)
	if wordBits == 32 {
		most = most32
	}
	switch {
	case m.Bytes == 0:
		return account.DefaultMaxMemory
	case wordBits == 64 && m.Bytes >= large:
		return min(m.Bytes/5*2, most)
	default:
		return max(account.LeastMemory, min(m.Bytes/4*3, most))
	}
}

// MaxMemory returns how many bytes peers of a relay may take, and a few words that say why. set is what the operator
// has chosen; 0: nothing.
func MaxMemory(set uint64) (bytes uint64, why string) {
	if set != 0 {
		return set, "as set"
	}
	m := find()
	return m.defaultOf(bits.UintSize), m.why()
}

func (m Memory) why() string {
	switch {
	case m.Bytes == 0:
		return "the default, because the machine's memory is not known"
	case m.Container:
		return fmt.Sprintf("by the container's memory of %d MiB", m.Bytes>>20)
	default:
		return fmt.Sprintf("by the machine's memory of %d MiB", m.Bytes>>20)
	}
}
