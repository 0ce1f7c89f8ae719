package tord

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/torrc"
)

const keepBindOption = "KeepBindCapabilities"

// checkKeepBind refuses to keep a capability where there are none.
func checkKeepBind(v string) error {
	if v == "1" && !canKeepBinding {
		return fault.New(fault.Config, "%s 1: this system has no such capabilities", keepBindOption)
	}
	return nil
}

// keepsBinding reports whether a program that becomes the User may open ports below 1024 from then on. As with C tor, auto is for
// configurations that have some.
func (c conf) keepsBinding() bool {
	switch c.one(keepBindOption) {
	case "0":
		return false
	case "1":
		return true
	}
	return canKeepBinding && slices.ContainsFunc(slices.Concat(clientPorts, []string{"ORPort", "DirPort", "ControlPort", "__ControlPort"}), func(name string) bool {
		return slices.ContainsFunc(c[name], isLow)
	})
}

// isLow reports whether a line of a port names one below 1024.
func isLow(line string) bool {
	addr, _, err := torrc.Port(line)
	if err != nil || strings.HasPrefix(addr, "unix:") {
		return false
	}
	text := addr[strings.LastIndexByte(addr, ':')+1:]
	if at, err := netip.ParseAddrPort(addr); err == nil {
		text = strconv.Itoa(int(at.Port()))
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0 && n < 1024
}
