package tord

import (
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/torrc"
)

// leaveStreams is the one option that controllers set: no file keeps it, in C tor either, and without it ATTACHSTREAM has no
// streams to attach.
const leaveStreams = "__LeaveStreamsUnattached"

// nativeOptions are the options of C tor that have the same values in Chive's settings.
var nativeOptions = []string{
	"DataDirectory", "SocksPort", "HTTPTunnelPort", "DNSPort", "TransPort", "MapAddress", "ClientOnionAuthDir", "VirtualAddrNetworkIPv4",
	"VirtualAddrNetworkIPv6", "AutomapHostsOnResolve", "SafeSocks", "TestSocks", "ExcludeNodes", "ExcludeExitNodes", "EntryNodes",
	"MiddleNodes", "ExitNodes", "NumEntryGuards", "Nickname", "ContactInfo", "ORPort", "DirPort", "ExitPolicy", "BandwidthRate", "BandwidthBurst",
	"MaxAdvertisedBandwidth", "AccountingMax", "AccountingRule", "IPv6Exit",
}

// alwaysNative are options that have one value in each process. Programs ask for them before they do something else.
var alwaysNative = map[string]string{
	"DisableNetwork": "0", "UseMicrodescriptors": "1", "HiddenServiceSingleHopMode": "0", "HiddenServiceNonAnonymousMode": "0", "__ReloadTorrcOnSIGHUP": "1",
}

// otherNative are options whose values come from elsewhere, or that have none: no program is the owner from the start, and
// passwords are told to nobody.
var otherNative = []string{"ControlPort", "ControlSocket", "CookieAuthentication", "DirCache", "ExitPolicyRejectPrivate", "ExitRelay", "HashedControlPassword", "__OwningControllerProcess"}

// nativeNames returns the options that GETCONF knows, for config/names.
func nativeNames() string {
	all := append([]string{leaveStreams}, nativeOptions...)
	for name := range alwaysNative {
		all = append(all, name)
	}
	all = append(all, otherNative...)
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	var b strings.Builder
	for _, name := range all {
		if o := find(name); o != nil {
			b.WriteString(o.name + " " + o.kind + "\n")
		}
	}
	return b.String()
}

// Reloaded implements daemon.Controllers: it takes the settings that are in effect.
func (n *Native) Reloaded() {
	role := torrc.Proxy
	if n.at.Relay != nil {
		role = torrc.Relay
	}
	c := conf{}
	for _, name := range nativeOptions {
		o, known := find(name), torrc.Find(name)
		if o == nil || known == nil || known.Role&role == 0 {
			continue
		}
		for _, v := range n.at.Values(known.Key) {
			to, isBool := map[string]string{"true": "1", "false": "0"}[v]
			switch {
			case isBool && o.kind == "Boolean":
				v = to
			case v == "0", v == "" && name != "VirtualAddrNetworkIPv6": // it has none, or the usual one
				continue
			}
			c[o.name] = append(c[o.name], ctlwire.OneLine(v))
		}
	}
	c["DataDirectory"] = []string{n.at.DataDir}
	for _, a := range n.at.Ports {
		if a.Network() == "unix" {
			c["ControlSocket"] = append(c["ControlSocket"], a.String())
		} else {
			c["ControlPort"], c["CookieAuthentication"] = append(c["ControlPort"], a.String()), []string{"1"}
		}
	}
	c["ExitRelay"] = []string{"0"}
	if r := n.hostedRelay(); r != nil {
		c["ExitRelay"] = []string{yes(r.Inner().Policy().Accepts())}
		c["ExitPolicyRejectPrivate"] = []string{yes(!slices.Contains(n.at.Values("exit-private"), "true"))}
		c["DirCache"] = []string{yes(!slices.Contains(n.at.Values("no-dir-cache"), "true"))}
	}
	n.setPlan(&plan{conf: c, dataDir: n.at.DataDir})
}

// Get implements control.Engine.
func (n *Native) Get(name string) ([]control.Line, error) {
	o := find(name)
	if o == nil {
		return nil, unknownKey(name)
	}
	if v, always := alwaysNative[o.name]; always {
		return []control.Line{{Key: o.name, Value: v, HasValue: true}}, nil
	}
	if o.name == leaveStreams {
		n.changing.Lock()
		defer n.changing.Unlock()
		return []control.Line{{Key: o.name, Value: n.leave, HasValue: true}}, nil
	}
	now, _ := n.plan()
	values, known := now.conf[o.name]
	if !known && !slices.Contains(otherNative, o.name) && !slices.Contains(nativeOptions, o.name) {
		return nil, unknownKey(name)
	}
	var out []control.Line
	for _, v := range values {
		if v != "" {
			out = append(out, control.Line{Key: o.name, Value: v, HasValue: true})
		}
	}
	if out == nil {
		out = []control.Line{{Key: o.name}}
	}
	return out, nil
}

func unknownKey(name string) error {
	return ctlwire.Errorf(ctlwire.Unknown, "Unrecognized configuration key %s", ctlwire.Quote(name))
}

// Set implements control.Engine.
func (n *Native) Set(changes []control.Line, _ bool) error {
	leave := ""
	for _, l := range changes {
		o := find(l.Key)
		switch {
		case o == nil:
			return ctlwire.Errorf(ctlwire.Unknown, "Unrecognized option: %v", unknownOption(l.Key))
		case o.name != leaveStreams || n.at.Client == nil:
			return ctlwire.Errorf(ctlwire.BadConfig, "Unable to set option: %s", n.where(n.keyOf(o.name)))
		}
		switch l.Value {
		case "", "0":
			leave = "0"
		case "1":
			leave = "1"
		default:
			return ctlwire.Errorf(ctlwire.BadValue, "Unacceptable option value: Invalid %s: it is 0 or 1", o.name)
		}
	}
	if leave == "" {
		return nil
	}
	n.changing.Lock()
	defer n.changing.Unlock()
	n.at.Client.Inner().LeaveUnattached(leave == "1")
	if changed := n.leave != leave; !changed {
		return nil
	}
	n.leave = leave
	return n.server.EventLines("CONF_CHANGED", []string{leaveStreams + "=" + leave})
}

// keyOf returns Chive's name of an option of C tor in this process; empty: it has none.
func (n *Native) keyOf(name string) string {
	o := torrc.Find(name)
	if o == nil || o.Key == "" || n.at.Values(o.Key) == nil {
		return ""
	}
	return o.Key
}

// Load implements control.Engine.
func (n *Native) Load([]byte) error {
	return ctlwire.Errorf(ctlwire.BadConfig, "Transition not allowed: %s", n.where(""))
}

// Save implements control.Engine.
func (n *Native) Save(bool) error {
	return ctlwire.Errorf(ctlwire.Failed, "Unable to write configuration to disk: %s", n.where(""))
}
