package dirclient

import (
	"bufio"
	"crypto/sha256"
	"iter"
	"maps"
	"strings"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// Texts as they came from the network are only in files. They are read in small pieces, for who reads slowly.

// ConsensusText returns the lines of the consensus that was stored last. The file is open while they are read.
func (c *Client) ConsensusText() (iter.Seq[string], error) {
	if c.cfg.Dir == "" || c.Directory() == nil {
		return nil, fault.New(fault.Directory, "no consensus is stored")
	}
	path := c.store.path(consensusFile)
	f, err := atomicfile.OpenRegular(path)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if err := f.Close(); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	return func(yield func(string) bool) {
		f, err := atomicfile.OpenRegular(path)
		if err != nil {
			c.log.Warn("directory cache: cannot read", "file", consensusFile, "err", err)
			return
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if !yield(lines.Text()) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			c.log.Warn("directory cache: cannot read", "file", consensusFile, "err", err)
		}
	}, nil
}

// MicrodescText returns the lines of the stored microdescriptors that want names by their digests, in the order in
// which they were stored.
func (c *Client) MicrodescText(want map[[32]byte]bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		left := maps.Clone(want)
		err := c.store.eachChunk(func(b []byte) error {
			for one := range netdoc.SplitMicrodescs(b) {
				h := sha256.Sum256(one)
				if !left[h] {
					continue
				}
				delete(left, h)
				for l := range strings.Lines(string(one)) {
					if !yield(strings.TrimSuffix(l, "\n")) {
						return errEnough
					}
				}
			}
			if len(left) == 0 {
				return errEnough
			}
			return nil
		})
		if err != nil && err != errEnough {
			c.log.Warn("directory cache: cannot read", "file", microFile, "err", err)
		}
	}
}

// errEnough ends the reading of a file.
var errEnough = fault.New(fault.Closed, "enough was read")
