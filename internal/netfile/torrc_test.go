package netfile

import (
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/tomlfile"
)

const torrcText = `# a client of a private network
TestingTorNetwork 1
SocksPort 127.0.0.1:9050 # DirAuthority in a comment
DirAuthority auth0 orport=5100 no-v2 v3ident=` + fp1 + ` 127.0.0.1:7100 ` + fp2 + `
dirauthority auth1 orport=5101 ipv6=[2001:db8::1]:5101 weight=1.0 \
   v3ident=` + fp2 + ` \
   127.0.0.1:7101 2F3D F9CA 0E5D 36F2 685A  2DA6 7184 EB8D CB8C BA8C
FallbackDir 127.0.0.1:0 orport=5200 id=` + fp1 + ` weight=2
V3AuthVotingInterval 20 seconds
`

func TestImportTorrc(t *testing.T) {
	n, err := ImportTorrc("lab", "torrc", []byte(strings.ReplaceAll(torrcText, "\n", "\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Authorities) != 2 || len(n.Fallbacks) != 1 {
		t.Fatalf("%+v", n)
	}
	a, b := n.Authorities[0], n.Authorities[1]
	if a.Nickname != "auth0" || a.V3Ident.String() != fp1 || a.RSA.String() != fp2 || a.ORPorts[0].String() != "127.0.0.1:5100" || a.DirPort.String() != "127.0.0.1:7100" {
		t.Errorf("%+v", a)
	}
	if b.RSA.String() != fp2 || len(b.ORPorts) != 2 || b.ORPorts[1].String() != "[2001:db8::1]:5101" {
		t.Errorf("%+v", b)
	}
	if f := n.Fallbacks[0]; f.RSA.String() != fp1 || f.ORPorts[0].String() != "127.0.0.1:5200" {
		t.Errorf("%+v", f)
	}
	if n.Testing != (netdir.Testing{AllowPrivateAddresses: true, VotingInterval: 20 * time.Second}) {
		t.Errorf("%+v", n.Testing)
	}
}

func TestImportTorrcSubnets(t *testing.T) {
	n, err := ImportTorrc("lab", "torrc", []byte("EnforceDistinctSubnets 1\n"+torrcText))
	if err != nil || !n.Testing.EnforceDistinctSubnets {
		t.Errorf("a line of its own wins over TestingTorNetwork: %+v %v", n, err)
	}
	public := `DirAuthority a orport=9001 v3ident=` + fp1 + ` 192.0.2.1:80 ` + fp2 + "\n"
	if n, err = ImportTorrc("x", "torrc", []byte(public)); err != nil || n.Testing != netdir.DefaultTesting() {
		t.Errorf("%+v %v", n, err)
	}
}

// TestImportTorrcContinued has a line that is continued two million times: it
// is read once, not once for each.
func TestImportTorrcContinued(t *testing.T) {
	auth := "DirAuthority a orport=9001 v3ident=" + fp1 + " 192.0.2.1:80 " + fp2
	long := auth + strings.Repeat("\\\n", 2_000_000-100)
	n, err := ImportTorrc("x", "torrc", []byte(long))
	if err != nil || len(n.Authorities) != 1 {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestImportTorrcRefusals(t *testing.T) {
	auth := "DirAuthority a orport=9001 v3ident=" + fp1 + " 192.0.2.1:80 " + fp2
	for in, want := range map[string]string{
		"":                                    "torrc: no DirAuthority line",
		"SocksPort 9050":                      "torrc: no DirAuthority line",
		"\n%include /etc/tor/x":               "torrc:2: %include cannot be followed",
		"DirAuthority":                        "torrc:1: DirAuthority: an address",
		"DirAuthority a 192.0.2.1:80":         "torrc:1: DirAuthority: an address",
		"DirAuthority a 192.0.2.1:80 " + fp2:  "torrc:1: DirAuthority: it has no v3ident",
		strings.Replace(auth, "9001", "0", 1): `torrc:1: DirAuthority: orport: "0" is not a port`,
		strings.Replace(auth, "orport=9001", "bridge", 1):  "torrc:1: DirAuthority: bridge authorities",
		strings.Replace(auth, "orport", "orprot", 1):       "torrc:1: DirAuthority: orprot: unknown flag",
		strings.Replace(auth, "192.0.2.1", "127.0.0.1", 1): `torrc: authority 1 ("a"): 127.0.0.1:80 is not a public address`,
		auth + "\n" + auth: `torrc: authority 2 ("a"): v3ident is another`,
		strings.Replace(auth, "192.0.2.1:80", "192.0.2.1:0", 1): `torrc:1: DirAuthority: "192.0.2.1:0" is not`,
		auth + "x":                                         "torrc:1: DirAuthority: RSA fingerprint",
		auth + "\nV3AuthVotingInterval 9":                  `torrc:2: V3AuthVotingInterval: "9" is not an interval`,
		auth + "\nV3AuthVotingInterval 86401":              `torrc:2: V3AuthVotingInterval: "86401" is not an interval`,
		auth + "\nTestingTorNetwork yes":                   `torrc:2: TestingTorNetwork: "yes" is neither`,
		auth + "\nV3AuthVotingInterval 1 fortnight":        `torrc:2: V3AuthVotingInterval: "1 fortnight"`,
		auth + "\nFallbackDir 192.0.2.1:80 id=" + fp1:      "torrc:2: FallbackDir: an address, orport and id",
		auth + "\nFallbackDir 192.0.2.1:80 x=1":            "torrc:2: FallbackDir: x: unknown option",
		auth + "\nFallbackDir fallback orport=1 id=" + fp1: "torrc:2: FallbackDir: fallback: ",
		auth + "\nFallbackDir 192.0.2.1:80 192.0.2.2:80":   "torrc:2: FallbackDir: 192.0.2.2:80: a second address",
	} {
		if _, err := ImportTorrc("x", "torrc", []byte(in)); !fault.Is(err, fault.Config) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

// TestImportTorrcBounds: the shortest and the longest interval, the longest file, and what a line leaves out.
func TestImportTorrcBounds(t *testing.T) {
	auth := "DirAuthority orport=9001 v3ident=" + fp1 + " 192.0.2.1:80 " + fp2 + "\n"
	for seconds, want := range map[string]time.Duration{"10": 10 * time.Second, "86400": 24 * time.Hour} {
		n, err := ImportTorrc("x", "torrc", []byte(auth+"TestingTorNetwork 1\nV3AuthVotingInterval "+seconds))
		if err != nil || n.Testing.VotingInterval != want {
			t.Errorf("%s: %+v, %v", seconds, n, err)
		}
	}
	for _, addr := range []string{"192.0.2.1", "192.0.2.1:0", "192.0.2.1:80"} { // the port of a DirPort is no matter
		n, err := ImportTorrc("x", "torrc", []byte(auth+"FallbackDir "+addr+" orport=443 id="+fp1))
		if err != nil || len(n.Fallbacks) != 1 || n.Fallbacks[0].ORPorts[0].String() != "192.0.2.1:443" {
			t.Errorf("%s: %+v, %v", addr, n, err)
		}
	}
	n, err := ImportTorrc("x", "torrc", []byte(auth+"V3AuthVotingInterval 10\nFallbackDir 192.0.2.1:80 orport=443 id="+fp1+" ipv6=[2001:db8::1]:444"))
	if err != nil || n.Authorities[0].Nickname != "authority1" || n.Testing.VotingInterval != 0 || len(n.Fallbacks[0].ORPorts) != 2 {
		t.Errorf("%+v, %v", n, err)
	}
	longest := auth + strings.Repeat("#\n", tomlfile.MaxSize/2)
	for _, c := range []struct {
		text string
		ok   bool
	}{{longest[:tomlfile.MaxSize], true}, {longest[:tomlfile.MaxSize+1], false}} {
		if _, err := ImportTorrc("x", "torrc", []byte(c.text)); (err == nil) != c.ok {
			t.Errorf("%d bytes: %v", len(c.text), err)
		}
	}
}
