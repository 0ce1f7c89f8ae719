package main

import (
	"errors"
	"strings"

	"github.com/chivenet/chive/devp2p/internal/reads"
	"github.com/chivenet/chive/program"
)

// maxUpstream bounds the file of --rpc-upstream-file, in bytes. No URL is as long.
const maxUpstream = 8 << 10

// upstreamFlag is the flag that names the upstream: errors are about that one.
func (s *wallets) upstreamFlag() string {
	if s.upstreamFile != "" {
		return "rpc-upstream-file"
	}
	return "rpc-upstream"
}

// readUpstream reads the address of the upstream, from the command line or from a file; nil: there
// is none. No error repeats what the file says, which may have a key in it.
func (s *wallets) readUpstream() (*reads.Address, error) {
	text := s.upstream
	if s.upstreamFile != "" {
		if s.upstream != "" {
			return nil, errors.New("--rpc-upstream is given, too: one of them is enough")
		}
		raw, err := program.ReadFile(s.upstreamFile, maxUpstream)
		if err != nil {
			return nil, err
		}
		text = strings.TrimSpace(string(raw))
		switch {
		case text == "":
			return nil, errors.New("the file is empty: its one line is the value of --rpc-upstream")
		case strings.ContainsAny(text, "\r\n"):
			return nil, errors.New("the file has more than one line")
		}
	}
	if text == "" {
		return nil, nil
	}
	return reads.ParseAddress(text)
}
