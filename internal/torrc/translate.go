package torrc

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/chivenet/chive/internal/fault"
)

// Document is what a torrc becomes for one of Chive's programs.
type Document struct {
	Settings []*Setting
	Onions   [][]*Setting // a table each
	Notes    []Note       // lines without a setting, and settings that differ
}

// Setting is an option of Chive's with its values.
type Setting struct {
	Key    string
	Values []string // one, unless the option is a list
	From   []Line
}

// Note says what became of a line that is no setting, or not quite.
type Note struct {
	Line Line
	Why  string
	Same bool // nothing is lost
	In   Role // the other programs that have the option; 0: no other has it
}

// Roles returns the programs that a torrc describes; a proxy if nothing else.
func Roles(lines []Line) Role {
	var r Role
	for _, l := range lines {
		off := l.Value == "0" || l.Value == ""
		switch strings.ToLower(l.Key) {
		case "orport":
			if !off {
				r |= Relay
			}
		case "v3authoritativedirectory", "authoritativedirectory":
			if !off {
				r |= Authority
			}
		case "socksport", "httptunnelport", "dnsport", "transport", "bridge":
			if !off {
				r |= Proxy
			}
		case "hiddenservicedir":
			r |= Proxy | Onion
		}
	}
	if r&Authority != 0 {
		r &^= Relay // its ORPort is the authority's
	}
	if r == 0 {
		r = Proxy
	}
	return r
}

// repeated are the options that several lines add to. Of others, the last line counts.
var repeated = []string{"socks", "http", "dns", "trans", "bridge", "transport-plugin", "transport-listen", "transport-options", "orport", "address",
	"exit-policy", "family", "family-id", "entry-nodes", "middle-nodes", "exit-nodes", "exclude-nodes", "exclude-exit-nodes", "node-family", "map-address", "outbound-bind-address", "outbound-bind-address-or", "outbound-bind-address-exit", "outbound-bind-address-pt", "param", "client-versions", "server-versions", "port"}

// Translate makes the settings of one program, Proxy, Relay or Authority. Lines of
// other programs become notes. A line that C tor would not take is an error.
func Translate(lines []Line, role Role) (*Document, error) {
	t := &translation{role: role, doc: new(Document), network: network{}}
	for _, l := range lines {
		if err := t.line(l); err != nil {
			return nil, fault.New(fault.Config, "%s: %s: %w", l.At(), l.Key, err)
		}
	}
	if err := t.finish(); err != nil {
		return nil, err
	}
	return t.doc, nil
}

type translation struct {
	role Role
	doc  *Document

	useBridges, exitRelay *Line    // that say 0
	exit, six             *Line    // ExitRelay and IPv6Exit 1
	bridge, published     *Line    // BridgeRelay 1 and PublishServerDescriptor
	distributed           bool     // there is a BridgeDistribution, with a note of its own
	single                []Line   // HiddenServiceSingleHopMode and HiddenServiceNonAnonymousMode
	network               network  // how the client reaches the network
	orPorts               []string // the first is what others reach, if NoListen does not say otherwise
}

func (t *translation) line(l Line) error {
	if strings.ContainsAny(l.Value, "\r\n") {
		return fault.New(fault.Config, "its value has a line break, which would be another line of Chive's file")
	}
	// Comments repeat the line, so that the whole file could not be read.
	if text := l.Key + l.Value; !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
		return fault.New(fault.Config, "it is not UTF-8, or has control characters")
	}
	name, reset := strings.CutPrefix(l.Key, "/")
	name = Today(name)
	if l.Key = name; reset {
		l.Key = "/" + name
	}
	o := Find(name)
	if full, ok := Obsolete(name); ok {
		t.note(l, "C tor skips "+full+", too", true)
		return nil
	}
	switch {
	case o == nil:
		t.note(l, "no option of C tor 0.4.9", false)
		return nil
	case reset:
		t.note(l, "the file is complete by itself: there is nothing to reset", true)
		return nil
	case o.Key == "":
		t.other(o, l)
		return nil
	}
	in := t.role
	if t.role == Proxy {
		in |= Onion
	}
	if o.Role&in == 0 {
		off := l.Value == "0" || l.Value == ""
		t.doc.Notes = append(t.doc.Notes, Note{masked(l), "it belongs to another program: " + o.Role.String(), off, o.Role})
		return nil
	}
	if o.Name == "ORPort" && hasFlag(l, "NoListen") {
		t.orPorts = slices.Insert(t.orPorts, 0, strings.Fields(l.Value)[0])
	}
	if o.Key == proxyKey || o.Key == reachKey {
		t.network[o.Name] = append(t.network[o.Name], l)
		return nil
	}
	if o.Key == singleOnion {
		t.single = append(t.single, l)
		_, err := Bool(l.Value)
		return err
	}
	switch o.Name {
	case "IPv6Exit":
		if t.six = nil; l.Value == "1" {
			t.six = &l
		}
	case "BridgeRelay":
		if t.bridge = nil; l.Value == "1" {
			t.bridge = &l
		}
	}
	values, note := []string{l.Value}, ""
	if o.read != nil {
		var err error
		if values, note, err = o.read(l.Value); err != nil {
			return err
		}
	}
	switch {
	case note != "" && o.Why != "":
		t.note(l, note+"; "+o.Why, false)
	case note != "":
		t.note(l, note, false)
	case len(values) == 0:
		t.note(l, "as without this line", true)
	}
	if len(values) > 0 {
		t.set(o, l, values)
	}
	if o.Key == "log-level" {
		if file, ok := logFile(l.Value); ok {
			t.set(&Option{Key: "log-file"}, l, []string{file})
		}
	}
	return nil
}

// String names the program's command.
func (r Role) String() string {
	var out []string
	for i, name := range []string{"chive proxy", "chive relay", "chive authority", "an onion service of chive proxy"} {
		if r&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}

// other notes a line whose option needs no setting, or has none.
func (t *translation) other(o *Option, l Line) {
	switch o.Name {
	case "UseBridges":
		if l.Value == "0" {
			t.useBridges = &l
		}
	case "ExitRelay":
		switch l.Value {
		case "0":
			t.exitRelay = &l
		case "1":
			t.exit = &l
		}
	case "PublishServerDescriptor":
		t.published = &l
		return
	case "BridgeDistribution":
		t.distributed = true
	}
	same := o.Same != "" && l.Value == o.Same || slices.Contains([]string{"UseBridges", "ExitRelay"}, o.Name)
	t.note(l, o.Why, same)
}

func (t *translation) note(l Line, why string, same bool) {
	t.doc.Notes = append(t.doc.Notes, Note{Line: masked(l), Why: why, Same: same})
}

func (t *translation) set(o *Option, l Line, values []string) {
	list := &t.doc.Settings
	if o.Role == Onion {
		if o.Key == "key-dir" {
			t.doc.Onions = append(t.doc.Onions, nil)
		}
		if len(t.doc.Onions) == 0 {
			t.note(l, "it stands before the first HiddenServiceDir", false)
			return
		}
		list = &t.doc.Onions[len(t.doc.Onions)-1]
	}
	if o.Key == "orport" && !hasFlag(l, "NoAdvertise") {
		t.orPorts = append(t.orPorts, values...)
	}
	i := slices.IndexFunc(*list, func(s *Setting) bool { return s.Key == o.Key })
	if i < 0 {
		*list = append(*list, &Setting{o.Key, values, []Line{l}})
		return
	}
	s := (*list)[i]
	if slices.Contains(repeated, o.Key) {
		s.Values, s.From = append(s.Values, values...), append(s.From, l)
		return
	}
	if outweighs(s, l, values[0]) {
		t.note(l, "another line says otherwise: "+s.From[0].At(), true)
		return
	}
	t.note(s.From[0], "a later line says otherwise: "+l.At(), true)
	s.Values, s.From = values, []Line{l}
}

// finish applies the lines that concern several others.
func (t *translation) finish() error {
	d := t.doc
	if t.useBridges != nil {
		t.drop("bridge", "UseBridges 0: without this line, its bridge is used")
	}
	if t.exitRelay != nil {
		t.drop("exit-policy", "ExitRelay 0: the relay is no exit without a policy")
		t.drop("reduced-exit-policy", "ExitRelay 0: the relay is no exit without a policy")
	}
	t.addExit()
	t.addPublished()
	for _, s := range slices.Clone(d.Settings) {
		switch {
		case s.Key == "address":
			t.addPorts(s)
		case s.Key == "bandwidth-rate" && forRelay(s.From[0]):
			t.dropUnless(forRelay, "bandwidth-burst", "RelayBandwidthRate without RelayBandwidthBurst: as much as in a second may come at once")
		}
	}
	t.addSingle()
	t.addStrict()
	return t.addNetwork()
}

// addExit gives an exit that names no policy the default one. As in C tor, IPv6Exit 1 makes
// an exit, too.
func (t *translation) addExit() {
	from := t.exit
	if from == nil && t.exitRelay == nil {
		from = t.six
	}
	if from == nil || t.role != Relay || slices.ContainsFunc(t.doc.Settings, func(s *Setting) bool {
		return s.Key == "exit-policy" || s.Key == "reduced-exit-policy" && s.Values[0] == "true"
	}) {
		return
	}
	t.doc.Settings = append(t.doc.Settings, &Setting{"exit-policy", []string{"default"}, []Line{*from}})
}

// addPublished says what becomes of a relay's or a bridge's descriptor. C tor gives a bridge's
// to the bridge authority, from which users get it, unless a line says otherwise.
func (t *translation) addPublished() {
	const alone = "a bridge is not published to the bridge authority: only those to whom you give its lines know of it"
	switch l := t.published; {
	case l == nil && t.bridge != nil && !t.distributed:
		t.note(*t.bridge, alone, false)
	case l == nil:
	case t.bridge != nil:
		t.note(*l, alone, l.Value == "0")
	case t.role == Relay && l.Value == "0":
		t.doc.Settings = append(t.doc.Settings, &Setting{"no-publish", []string{"true"}, []Line{*l}})
	default:
		t.note(*l, byName()["publishserverdescriptor"].Why, l.Value == "1" || strings.EqualFold(l.Value, "v3"))
	}
}

// singleOnion is the option of Chive's for two of C tor's, which concern all services.
const singleOnion = "single-onion"

// addSingle gives up the anonymity of all services if both of C tor's options say so.
func (t *translation) addSingle() {
	on := map[string]bool{}
	for _, l := range t.single {
		on[strings.ToLower(l.Key)] = l.Value == "1"
	}
	hop, open := on["hiddenservicesinglehopmode"], on["hiddenservicenonanonymousmode"]
	if hop && open && len(t.doc.Onions) > 0 {
		for i := range t.doc.Onions {
			t.doc.Onions[i] = append(t.doc.Onions[i], &Setting{singleOnion, []string{"host-can-be-found"}, t.single})
		}
		return
	}
	why := "as without this line"
	switch {
	case hop && open:
		why = "there is no HiddenServiceDir"
	case hop || open:
		why = "C tor asks for HiddenServiceSingleHopMode and HiddenServiceNonAnonymousMode together: with one of them, services stay anonymous here"
	}
	for _, l := range t.single {
		t.note(l, why, !hop && !open)
	}
}

// hasFlag reports whether a port's line has a flag.
func hasFlag(l Line, flag string) bool {
	return slices.ContainsFunc(strings.Fields(l.Value), func(w string) bool { return strings.EqualFold(w, flag) })
}

// addPorts gives the addresses the port of the first ORPort.
func (t *translation) addPorts(s *Setting) {
	for i, n := range t.doc.Notes {
		if n.Why == whyNoListen || n.Why == whyNoAdvertise {
			t.doc.Notes[i].Why, t.doc.Notes[i].Same = "`address` says where others reach the relay", true
		}
	}
	if len(t.orPorts) == 0 {
		return
	}
	p := t.orPorts[0]
	if p = p[strings.LastIndexByte(p, ':')+1:]; p == "0" {
		return // the one that the system chooses
	}
	for i, a := range s.Values {
		if strings.Contains(a, ":") {
			a = "[" + a + "]"
		}
		s.Values[i] = a + ":" + p
	}
}
