package appearance

import (
	"context"
	"os/exec"
	"regexp"

	"github.com/chivenet/chive/internal/fault"
)

var (
	torVersion     = regexp.MustCompile(`Tor version ([0-9][^ \n]*[0-9a-z])`)
	opensslVersion = regexp.MustCompile(`OpenSSL ([0-9]+\.[0-9]+)`)
)

// TorVersion asks a program of C tor for its version and that of its OpenSSL.
func TorVersion(ctx context.Context, tor string) (Versions, error) {
	out, err := exec.CommandContext(ctx, tor, "--version").Output()
	if err != nil {
		return Versions{}, fault.New(fault.Local, "%s --version: %w", tor, err)
	}
	t, o := torVersion.FindSubmatch(out), opensslVersion.FindSubmatch(out)
	if t == nil || o == nil {
		return Versions{}, fault.New(fault.Local, "%s --version names no version of tor or of OpenSSL", tor)
	}
	return Versions{Tor: string(t[1]), OpenSSL: string(o[1])}, nil
}
