package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// dialers are the files that may open connections or look names up, and their
// destinations. All other code can reach the network only by functions that it
// receives: a listener's only dialer is that of a client, which uses circuits.
var dialers = map[string]string{
	"httpclient.go":                "through the client, by its DialContext",
	"internal/cli/exec.go":         "the SOCKS port that --socks names",
	"internal/cli/fte_run.go":      "fteproxy's sides, to where their flags say",
	"internal/cli/fte_tools.go":    "itself, on loopback",
	"fte/http_client.go":           "a server of the transport, or the proxy before it",
	"internal/authority/config.go": "authorities and relays, to vote and to test them",
	"internal/client/connect.go":   "relays: the one place where a client dials",
	"internal/exit/connect.go":     "an exit's destinations",
	"internal/exit/exchange.go":    "an exit's name servers",
	"internal/fetch/fetch.go":      "through the client: chive get has no other way",
	"internal/fetch/http.go":       "through the client, by the function that it receives",
	"internal/hsservice/target.go": "an onion service's targets, which its operator names by address",
	"internal/plugin/plugin.go":    "a transport's other end, when chive is a plugin",
	"internal/plugin/proxy.go":     "the proxy before that",
	"internal/relay/publish.go":    "an authority's DirPort",
	"internal/relay/relay.go":      "relays",
	"relay/address.go":             "the system's name servers, for the address of a relay whose operator gave its name",
	"internal/socks/unix.go":       "a socket of this machine",
}

// reaching selects the functions that use the network, in the packages that have
// such functions.
var reaching = map[string]func(name string) bool{
	"net": func(n string) bool {
		return strings.HasPrefix(n, "Dial") || strings.HasPrefix(n, "Lookup") || strings.HasPrefix(n, "Resolve") || n == "DefaultResolver"
	},
	"crypto/tls": func(n string) bool { return strings.HasPrefix(n, "Dial") },
	"net/http": func(n string) bool {
		return slices.Contains([]string{"Get", "Head", "Post", "PostForm", "Client", "Transport", "DefaultClient", "DefaultTransport", "ProxyFromEnvironment"}, n)
	},
	"golang.org/x/net/proxy": func(string) bool { return true },
	"syscall":                func(n string) bool { return n == "Connect" || strings.HasPrefix(n, "Sendto") },
	"golang.org/x/sys/unix":  func(n string) bool { return n == "Connect" || strings.HasPrefix(n, "Sendto") },
}

// TestNoWayAround: only the files in dialers connect to the network or look names
// up.
func TestNoWayAround(t *testing.T) {
	used := map[string]bool{}
	for _, p := range listed(t) {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if l, _ := levelOf(t, p.ImportPath); l == support || measures(rel) {
			continue
		}
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.ToSlash(filepath.Join(rel, filepath.Base(name)))
			found := reaches(f)
			used[file] = len(found) > 0
			if len(found) > 0 && dialers[file] == "" {
				t.Errorf("%s: %s: take the dialing function as a parameter, or add the file and its destination to dialers", file, strings.Join(found, ", "))
			}
		}
	}
	for file := range dialers {
		if !used[file] {
			t.Errorf("%s connects to nothing any more: take it off the list", file)
		}
	}
}

// reaches lists the functions in a file that use the network.
func reaches(f *ast.File) (found []string) {
	names := map[string]func(string) bool{} // local name of an import -> its functions that use the network
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value) // it was parsed
		if r := reaching[path]; r != nil {
			name := filepath.Base(path)
			if i.Name != nil {
				name = i.Name.Name
			}
			names[name] = r
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && names[x.Name] != nil && names[x.Name](s.Sel.Name) {
				found = append(found, x.Name+"."+s.Sel.Name)
			}
		}
		return true
	})
	return found
}

// TestReaches shows that the check can fail.
func TestReaches(t *testing.T) {
	const src = `package p
import ("net"; web "net/http"; "golang.org/x/net/proxy"; "net/netip")
var _ net.Conn
var _ netip.Addr
var _ web.Handler
func f() { net.Dial("tcp", ""); net.LookupHost(""); web.Get(""); proxy.FromEnvironment(); var d net.Dialer }`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"net.Dial", "net.LookupHost", "web.Get", "proxy.FromEnvironment", "net.Dialer"}
	if got := reaches(f); !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}
