package tord

import (
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/torrc"
)

// TestTable: the table has each option that this package names, once, and none that package torrc does not know.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range allOptions() {
		if seen[o.name] || o.kind == "" {
			t.Errorf("%s is there twice, or has no type", o.name)
		}
		seen[o.name] = true
		if torrc.Find(o.name) == nil {
			t.Errorf("package torrc does not know %s", o.name)
		}
	}
	if len(seen) < 350 {
		t.Errorf("only %d options", len(seen))
	}
	for _, name := range slices.Concat(own, harmless, relayOnly, withoutRelay, untranslated, fixed, clientPorts, networkOptions) {
		if !seen[name] {
			t.Errorf("%s is no option", name)
		}
	}
	for _, name := range harmless {
		if slices.Contains(own, name) {
			t.Errorf("%s has an effect", name)
		}
	}
	for from, to := range map[string]string{"dirserver": "DirAuthority", "L": "Log", "SocksSocketsGroupWritable": "UnixSocksGroupWritable", "Nick": "Nickname", "CircuitIdleTimeout": "CircuitIdleTimeout"} {
		if o := find(from); o == nil || o.name != to {
			t.Errorf("%s stands for %v", from, o)
		}
	}
	if o := find(""); o != nil {
		t.Errorf("no name is %s", o.name)
	}
}

// another returns a value that is no default value.
func (o *option) another() string {
	switch o.kind {
	case "Boolean", "Boolean+Auto":
		if o.usual == "1" {
			return "0"
		}
		return "1"
	case "Integer", "SignedInteger", "TimeInterval", "DataSize", "Float", "TimeMsecInterval":
		return "7777"
	}
	return "x.example"
}

// TestRefused: no option that would not be obeyed keeps a value, unless the list of harmless ones has it.
func TestRefused(t *testing.T) {
	n := 0
	for _, o := range allOptions() {
		if o.does != refused {
			continue
		}
		n++
		v := o.another()
		if same := torrc.Find(o.name).Same; same != "" && v == same {
			continue // what Chive always does
		}
		c := conf{}
		if err := c.put(o, v); err == nil {
			t.Errorf("%s %s is taken, and nothing obeys it", o.name, v)
		} else if !strings.Contains(err.Error(), o.name) {
			t.Error(err)
		}
		if usual, ok := o.standard(); ok {
			if err := c.put(o, usual); err != nil {
				t.Error(err)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d options are refused", n)
	}
	for _, name := range []string{"Sandbox", "MetricsPort", "V3AuthVoteDelay", "HiddenServiceVersion", "TransProxyType", "NATDPort", "User", "SocksPolicy", "__DisablePredictedCircuits"} {
		if err := (conf{}).put(find(name), find(name).another()); name != "TransProxyType" && err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func linesOf(t testing.TB, file, text string) []torrc.Line {
	t.Helper()
	lines, err := torrc.Lines(torrc.Source{Name: file, Text: []byte(text)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestSources: what the options of several sources become together (tor(1), "command-line options").
func TestSources(t *testing.T) {
	for _, c := range []struct {
		sources []string
		want    conf
	}{
		{[]string{"SocksPort 1\nsocksport 2\nMaxCircuitDirtiness 5 minutes\nmaxcircuitdirtiness 60"}, conf{"SocksPort": {"1", "2"}, "MaxCircuitDirtiness": {"60"}}},
		{[]string{"SocksPort 1", "SocksPort 2\nSocksPort 3"}, conf{"SocksPort": {"2", "3"}}},
		{[]string{"SocksPort 1", "+SocksPort 2"}, conf{"SocksPort": {"1", "2"}}},
		{[]string{"SocksPort 1", "/SocksPort"}, conf{}},
		{[]string{"SocksPort 1", "/SocksPort\nSocksPort 2"}, conf{"SocksPort": {"2"}}},
		{[]string{"UseBridges 1", "+UseBridges 0"}, conf{"UseBridges": {"0"}}},
		{[]string{"ExcludeNodes a , b", "ExcludeNodes"}, conf{}},
		{[]string{"LongLivedPorts 21,22,706,1863,5050,5190,5222,5223,6523,6667,6697,8300"}, conf{}},
		{[]string{"MaxMemInQueues 1 GB"}, conf{"MaxMemInQueues": {"1073741824"}}},
		{[]string{"ConfluxEnabled AUTO"}, conf{"ConfluxEnabled": {"auto"}}},
		{[]string{"HiddenServiceDir /a\nhiddenserviceport 80\nHiddenServiceDir /b\nHiddenServicePort 81 82"},
			conf{onionGroup: {"HiddenServiceDir /a", "HiddenServicePort 80", "HiddenServiceDir /b", "HiddenServicePort 81 82"}}},
		{[]string{"HiddenServiceDir /a\nHiddenServicePort 80", "HiddenServiceDir /b"}, conf{onionGroup: {"HiddenServiceDir /b"}}},
		{[]string{"HiddenServiceDir /a\nHiddenServicePort 80", "+HiddenServiceDir /b"}, conf{onionGroup: {"HiddenServiceDir /a", "HiddenServicePort 80", "HiddenServiceDir /b"}}},
		{[]string{"HiddenServiceDir /a", "/HiddenServicePort"}, conf{}},
		{[]string{"MaxMemInCellQueues 1 GB\nNumHelperNodes 2\nstrictnode 1"}, conf{"MaxMemInQueues": {"1073741824"}, "NumEntryGuards": {"2"}, "StrictNodes": {"1"}}},
		{[]string{"MaxCircuitDirt 60"}, conf{"MaxCircuitDirtiness": {"60"}}}, // as C tor: the first letters do
		{[]string{"WarnUnsafeSocks 1\nhidservauth a b\nWarnUnsafeSocks 0"}, conf{skippedNames: {"WarnUnsafeSocks", "HidServAuth"}}},
	} {
		got := conf{}
		for _, s := range c.sources {
			if err := got.add(linesOf(t, "torrc", s)); err != nil {
				t.Fatal(c.sources, err)
			}
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, want %v", c.sources, got, c.want)
		}
	}
	for text, want := range map[string]string{
		"Blah 1":                  "Unknown option 'Blah'.  Failing. (torrc:1)",
		"UseBridges 2":            "Could not parse UseBridges: Provided value is malformed or out of bounds: Unrecognized value 2. (torrc:1)",
		"NumEntryGuards x":        "Unable to parse x as a number",
		"MaxCircuitDirtiness abc": "Unable to parse abc as a number",
		"V3AuthVoteDelay 9":       "this program is no authority",
		"HiddenServiceOptions /x": "has no value of its own",
	} {
		if err := (conf{}).add(linesOf(t, "torrc", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSkipped: what C tor skips is taken, has no value, is in no file, and the log says it.
func TestSkipped(t *testing.T) {
	c, err := (conf{}).set([]control.Line{{Key: "warnunsafesocks", Value: "1", HasValue: true}})
	if err != nil {
		t.Fatal(err)
	}
	if lines, err := c.get("WARNUNSAFESOCKS"); err != nil || len(lines) != 1 || lines[0] != (control.Line{Key: "WarnUnsafeSocks"}) {
		t.Errorf("%v, %v", lines, err)
	}
	if c.text() != "" || len(changed(conf{}, c)) != 0 {
		t.Errorf("%q, %v", c.text(), changed(conf{}, c))
	}
	p, err := planOf(c)
	if err != nil || !slices.Contains(p.notes, `Skipping obsolete configuration option "WarnUnsafeSocks".`) {
		t.Errorf("%v, %v", p, err)
	}
}

// TestSet: SETCONF takes all or nothing, and its errors have C tor's codes.
func TestSet(t *testing.T) {
	before := conf{"SocksPort": {"1"}, "MaxCircuitDirtiness": {"60"}, "DataDirectory": {"/d"}}
	keep := before.clone()
	after, err := before.set([]control.Line{{Key: "socksport", Value: "2", HasValue: true}, {Key: "SocksPort", Value: "3", HasValue: true}, {Key: "MaxCircuitDirtiness"}})
	if want := (conf{"SocksPort": {"2", "3"}, "DataDirectory": {"/d"}}); err != nil || !reflect.DeepEqual(after, want) {
		t.Error(after, err)
	}
	if got := changed(before, after); !slices.Equal(got, []string{"MaxCircuitDirtiness=600", "SocksPort=2", "SocksPort=3"}) {
		t.Error(got)
	}
	for _, c := range []struct {
		key, value string
		code       int
		text       string
	}{
		{"blarg", "1", 552, "Unrecognized option: Unknown option 'blarg'.  Failing."},
		{"MaxCircuitDirtiness", "abc", 513, "Unacceptable option value: Could not parse MaxCircuitDirtiness: Provided value is malformed or out of bounds: Unable to parse abc as a number"},
		{"DataDirectory", "/tmp/xx", 553, "Transition not allowed: While Tor is running, changing DataDirectory is not allowed"},
		{"User", "nobody-of-that-name", 553, "Transition not allowed: While Tor is running, changing User is not allowed"},
		{"RunAsDaemon", "1", 553, "Transition not allowed: While Tor is running, changing RunAsDaemon is not allowed"},
		{"NATDPort", "9001", 513, "Unacceptable option value: "},
	} {
		_, err := before.set([]control.Line{{Key: "SocksPort", Value: "9", HasValue: true}, {Key: c.key, Value: c.value, HasValue: true}})
		var e *ctlwire.Error
		if !errors.As(err, &e) || e.Code != c.code || !strings.HasPrefix(e.Text, c.text) {
			t.Errorf("%s: %v", c.key, err)
		}
	}
	if !reflect.DeepEqual(before, keep) {
		t.Error("a configuration in use was changed", before)
	}
}

func TestGet(t *testing.T) {
	c := conf{"Log": {"notice stdout", "info file /x"}, "UseBridges": {"1"}}
	for name, want := range map[string]string{
		"log": "Log=notice stdout Log=info file /x", "usebridges": "UseBridges=1", "ORPORT": "ORPort", "MaxCircuitDirtiness": "MaxCircuitDirtiness=600",
		"ExitNodes": "ExitNodes=", "hiddenserviceoptions": "HiddenServiceOptions", "__owningcontrollerprocess": "__OwningControllerProcess", "safelogging": "SafeLogging=1",
	} {
		lines, err := c.get(name)
		var got []string
		for _, l := range lines {
			text := l.Key
			if l.HasValue {
				text += "=" + l.Value
			}
			got = append(got, text)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Error(name, got, err)
		}
	}
	var e *ctlwire.Error
	if _, err := c.get("blarg"); !errors.As(err, &e) || e.Code != ctlwire.Unknown {
		t.Error(err)
	}
	for _, o := range allOptions() { // txtorcon asks for each
		if _, err := c.get(o.name); err != nil {
			t.Error(err)
		}
	}
}

// TestPortGroups: GETCONF tells the lines of a port and of its transient twin by the name of their group, which has no
// lines of its own.
func TestPortGroups(t *testing.T) {
	c := conf{"SocksPort": {"1", "2"}, "__SocksPort": {"3"}}
	want := []control.Line{{Key: "SocksPort", Value: "1", HasValue: true}, {Key: "SocksPort", Value: "2", HasValue: true}, {Key: "__SocksPort", Value: "3", HasValue: true}}
	if got, err := c.get("socksportlines"); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := c.get("DNSPortLines"); err != nil || !slices.Equal(got, []control.Line{{Key: "DNSPortLines"}}) {
		t.Errorf("%v, %v", got, err)
	}
	var e *ctlwire.Error
	if _, err := c.set([]control.Line{{Key: "SocksPortLines", Value: "1", HasValue: true}}); !errors.As(err, &e) || e.Code != ctlwire.BadValue || !strings.Contains(e.Error(), "virtual option") {
		t.Error(err)
	}
	for _, g := range portGroups() {
		if optionsByName()[strings.ToLower(strings.TrimSuffix(g.name, "Lines"))] == nil || strings.Count(namesList(), "\n"+g.name+" Virtual\n") != 1 {
			t.Errorf("%s is no group", g.name)
		}
	}
}

// FuzzText: what SAVECONF writes is the same configuration when it is read again.
func FuzzText(f *testing.F) {
	f.Add("SocksPort 9050 IsolateDestAddr\nControlPort unix:\"/a b\"\nLog notice file /x#y\nContactInfo \"a # b\"\nExcludeNodes {de},$AA\n__SocksPort 1\nDirAuthority x")
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := torrc.Lines(torrc.Source{Name: "torrc", Text: []byte(text)}, nil)
		c := conf{}
		if err != nil || c.add(lines) != nil {
			return
		}
		for _, values := range c {
			for _, v := range values {
				if strings.ContainsAny(v, "\x00\n\r") || strings.TrimSpace(v) != v || strings.ContainsFunc(v, func(r rune) bool { return r == 0xfffd || r >= 0x7f }) {
					return // package torrc refuses to translate the first, and quotes are about bytes of ASCII
				}
			}
		}
		want := c.text()
		again := conf{}
		if lines, err = torrc.Lines(torrc.Source{Name: "saved", Text: []byte(want)}, nil); err == nil {
			err = again.add(lines)
		}
		if err != nil || again.text() != want {
			t.Fatalf("%q, then %q: %v", want, again.text(), err)
		}
	})
}

func TestCommandLine(t *testing.T) {
	c, err := readCommandLine([]string{"--defaults-torrc", "d", "-f", "t", "DataDirectory", "/x y", "--SocksPort", "auto", "+__ControlPort", `unix:"/a"`, "/ExtORPort", "--ignore-missing-torrc", "--quiet", "--hush", "Log", `"notice stdout"`})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range c.options {
		got = append(got, l.Key+"="+l.Value)
	}
	if want := []string{"DataDirectory=/x y", "SocksPort=auto", `__ControlPort=unix:"/a"`, "/ExtORPort=", "Log=notice stdout"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if c.file != "t" || !c.named || c.defaults != "d" || !c.missingOK || c.quiet != never || !c.options[2].Adds || c.options[1].Adds {
		t.Errorf("%+v", c)
	}
	if c, err := readCommandLine([]string{"--hush"}); err != nil || c.quiet != slog.LevelWarn || c.named {
		t.Errorf("%+v %v", c, err)
	}
	for _, c := range [][]string{{"--SocksPort"}, {"-f"}, {"-x", "1"}, {"--"}, {"--hash-password"}, {"--keygen"}, {"--dump-config", "x"}, {"--list-fingerprint", "x"}, {""}} {
		if _, err := readCommandLine(c); err == nil {
			t.Errorf("%q is taken", c)
		}
	}
	for _, c := range [][]string{{"--dump-config"}, {"--dump-config", "-f", "x"}, {"--dump-config", "full"}} {
		if l, err := readCommandLine(c); err != nil || l.action != dumpConfig {
			t.Errorf("%q: %v", c, err)
		}
	}
}

// TestPhases: C tor's numbers never fall while Chive's rise, and each has its own tag.
func TestPhases(t *testing.T) {
	last := phase{percent: -1}
	for percent := 0; percent <= 100; percent++ {
		p := phaseOf(chive.BootstrapStatus{Percent: percent})
		if p.percent < last.percent || p.percent > 100 || p.tag != last.tag && p.percent == last.percent {
			t.Errorf("%d: %+v after %+v", percent, p, last)
		}
		last = p
	}
	if got := last.status(""); got != `NOTICE BOOTSTRAP PROGRESS=100 TAG=done SUMMARY="Done"` {
		t.Error(got)
	}
	if got := phases[1].status("a\nb \"c\""); got != `WARN BOOTSTRAP PROGRESS=5 TAG=conn SUMMARY="Connecting to a relay" WARNING="a?b \"c\"" REASON=MISC COUNT=1 RECOMMENDATION=ignore` {
		t.Error(got)
	}
}

// TestTestingDefaults: TestingTorNetwork changes a default value, which no line then needs, and a line with another value stays.
func TestTestingDefaults(t *testing.T) {
	for text, want := range map[string][2]string{
		"":                    {"1", ""},
		"TestingTorNetwork 1": {"0", "TestingTorNetwork 1\n"},
		"EnforceDistinctSubnets 0\nTestingTorNetwork 1": {"0", "TestingTorNetwork 1\n"},
		"EnforceDistinctSubnets 1\nTestingTorNetwork 1": {"1", "EnforceDistinctSubnets 1\nTestingTorNetwork 1\n"},
	} {
		c := conf{}
		if err := c.add(linesOf(t, "torrc", text)); err != nil {
			t.Fatal(err)
		}
		lines, err := c.get("EnforceDistinctSubnets")
		if got := c.text(); err != nil || lines[0].Value != want[0] || got != want[1] {
			t.Errorf("%q: %v, %v, %q", text, lines, err, got)
		}
	}
}
