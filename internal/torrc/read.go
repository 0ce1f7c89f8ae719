package torrc

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// The functions here turn an option's value into values of Chive's. No value and no
// note: nothing needs to be set. A note says what is lost.

func yesNo(s string) ([]string, string, error) {
	b, err := Bool(s)
	return []string{strconv.FormatBool(b)}, "", err
}

func noYes(s string) ([]string, string, error) {
	b, err := Bool(s)
	return []string{strconv.FormatBool(!b)}, "", err
}

func onOff(s string) ([]string, string, error) {
	if s == "auto" {
		return []string{"auto"}, "", nil
	}
	b, err := Bool(s)
	if b {
		return []string{"on"}, "", err
	}
	return []string{"off"}, "", err
}

func connectionPadding(s string) ([]string, string, error) {
	switch s {
	case "0":
		return []string{"off"}, "", nil
	case "1", "auto":
		return []string{"full"}, "", nil
	}
	return nil, "", fault.New(fault.Config, "%q is not 0, 1 or auto", s)
}

func reducedPadding(s string) ([]string, string, error) {
	if b, err := Bool(s); err != nil || !b {
		return nil, "", err
	}
	return []string{"reduced"}, "", nil
}

func vanguardsLite(s string) ([]string, string, error) {
	switch s {
	case "0":
		return []string{"off"}, "", nil
	case "1":
		return []string{"lite"}, "", nil
	case "auto":
		return []string{"auto"}, "", nil
	}
	return nil, "", fault.New(fault.Config, "%q is not 0, 1 or auto", s)
}

func sandbox(s string) ([]string, string, error) {
	if b, err := Bool(s); err != nil || !b {
		return nil, "", err
	}
	return []string{"auto"}, "", nil
}

func interval(s string) ([]string, string, error) {
	d, err := Interval(s)
	return []string{d.String()}, "", err
}

func byteCount(s string) ([]string, string, error) {
	n, err := Bytes(s)
	if n == 0 {
		return nil, "", err
	}
	return []string{strconv.FormatUint(n, 10)}, "", err
}

func names(s string) ([]string, string, error) { return list(s), "", nil }

func words(s string) ([]string, string, error) { return strings.Fields(s), "", nil }

// logLevel takes the least severity, wherever it goes.
func logLevel(s string) ([]string, string, error) {
	f := strings.Fields(strings.ToLower(s))
	if len(f) == 0 {
		return nil, "", fault.New(fault.Config, "no severity")
	}
	if strings.HasPrefix(f[0], "[") {
		f[0] = f[0][strings.LastIndexByte(f[0], ']')+1:]
	}
	least, _, _ := strings.Cut(f[0], "-")
	level, ok := map[string]string{"debug": "debug", "info": "debug", "notice": "info", "warn": "warn", "err": "error"}[least]
	if !ok {
		return nil, "", fault.New(fault.Config, "%q is no severity", f[0])
	}
	note := ""
	if len(f) > 1 && f[1] != "stdout" && f[1] != "stderr" {
		note = "the log does not go to " + strings.Join(f[1:], " ")
	}
	return []string{level}, note, nil
}

func metricsPort(s string) ([]string, string, error) {
	addr, flags, err := port(s)
	note := ""
	if len(flags) > 0 {
		note = "without " + strings.Join(flags, " ")
	}
	if err == nil && !strings.Contains(addr, ":") {
		addr = "127.0.0.1:" + addr
	}
	return []string{addr}, note, err
}

// isolating are the flags of ports for which a proxy has options of its own.
var isolating = map[string]string{"isolatedestaddr": "isolate-dest-addr", "isolatedestport": "isolate-dest-port",
	"isolateclientprotocol": "isolate-protocol", "noisolateclientaddr": "isolate-client-addr = false", "extendederrors": "extended-errors"}

func socksPort(s string) ([]string, string, error) { return localPort(s, true) }

func plainPort(s string) ([]string, string, error) { return localPort(s, false) }

func localPort(s string, socks bool) ([]string, string, error) {
	if f := strings.Fields(s); len(f) > 0 && f[0] == "0" {
		if socks {
			return []string{""}, "", nil // the default is a port
		}
		return nil, "", nil
	}
	addr, flags, err := port(s)
	var lost []string
	for _, f := range flags {
		switch w := strings.ToLower(f); {
		case w == "isolatesocksauth" || w == "isolateclientaddr" || w == "ipv6traffic" || w == "ipv4traffic":
		case isolating[w] != "":
			lost = append(lost, f+" (for all ports: "+isolating[w]+")")
		default:
			lost = append(lost, f)
		}
	}
	note := ""
	if len(lost) > 0 {
		note = "without the port's " + strings.Join(lost, ", ")
	}
	return []string{addr}, note, err
}

func orPort(s string) ([]string, string, error) {
	addr, flags, err := port(s)
	if err != nil || addr == "0" {
		return nil, "", err
	}
	note := ""
	for _, f := range flags {
		switch strings.ToLower(f) {
		case "nolisten":
			return nil, "an ORPort that others reach and that is not listened at: set `address` to it", nil
		case "noadvertise":
			note = "set `address` to where others reach this port"
		}
	}
	return []string{addr}, note, nil
}

func dirPort(s string) ([]string, string, error) {
	addr, _, err := port(s)
	if err != nil || addr == "0" {
		return nil, "", err
	}
	if !strings.Contains(addr, ":") {
		return nil, "give `dirport` an address: IP:" + addr, nil
	}
	return []string{addr}, "", nil
}

func address(s string) ([]string, string, error) {
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		return nil, "a name: set `address` to the IP:PORT that it stands for", nil
	}
	return []string{a.String()}, "", nil
}

func policy(s string) ([]string, string, error) {
	var out []string
	for _, p := range strings.Split(s, ",") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out, "", nil
}

// onionPort reads VIRTPORT [TARGET].
func onionPort(s string) ([]string, string, error) {
	virtual, at, _ := strings.Cut(strings.TrimSpace(s), " ")
	if rest, ok := strings.CutPrefix(strings.TrimSpace(at), "unix:"); ok {
		path, _ := unixPath(rest)
		return []string{virtual + "=unix:" + path}, "", nil
	}
	f := strings.Fields(s)
	if len(f) == 0 || len(f) > 2 {
		return nil, "", fault.New(fault.Config, "%q is not a port and a target", s)
	}
	target := "127.0.0.1:" + f[0]
	if len(f) == 2 {
		target = f[1]
		if _, err := strconv.ParseUint(target, 10, 16); err == nil {
			target = "127.0.0.1:" + target
		} else if _, err := netip.ParseAddr(strings.Trim(target, "[]")); err == nil {
			target = "[" + strings.Trim(target, "[]") + "]:" + f[0]
			if !strings.Contains(f[1], ":") {
				target = f[1] + ":" + f[0]
			}
		}
	}
	return []string{f[0] + "=" + target}, "", nil
}
