package rules

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/chivenet/chive"

const (
	floor = -1 // below level 0: error kinds and rules about addresses, which all levels may use
	pure  = 2  // the highest level without goroutines, sockets and clocks
	top   = 10 // the root package; packages that import it are higher
	// support marks packages for tests. Production code never imports them,
	// and they may import anything below the root package.
	support = 100
)

// levels is the dependency rule: a package imports only packages of a lower
// level than its own. An entry that ends in "/..." covers the packages below
// it too. docs/packages.md has the table for readers.
var levels = map[string]int{
	"internal/fault":   floor,
	"internal/netaddr": floor,

	"internal/account":  0,
	"internal/bin":      0,
	"internal/ident":    0,
	"internal/metrics":  0,
	"internal/nonblock": 0,
	"internal/pace":     0,
	"internal/panics":   0,
	"internal/protover": 0,
	"internal/version":  0,

	"fte/internal/formats": 1,
	"internal/cell":        1,
	"internal/cert":        1,
	"internal/ctlwire":     1,
	"internal/equix":       1,
	"internal/hibernate":   1,
	"internal/hscrypto":    1,
	"internal/linkspec":    1,
	"internal/race":        1,
	"internal/quantity":    1,
	"internal/tomlfile":    1,

	"fte/lang":           2,
	"internal/torrc":     2,
	"internal/cbt":       2,
	"internal/geoip":     2,
	"internal/flow":      2,
	"internal/handshake": 2,
	"internal/hspow":     2,
	"internal/layer":     2,
	"internal/netdoc":    2,
	"internal/options":   2,

	"internal/atomicfile": 3,
	"internal/hsfleet":    3,
	"internal/inherit":    3,
	"internal/isolation":  3,
	"internal/idle":       3,
	"internal/progress":   3,
	"internal/channel":    3,
	"internal/listen":     3,
	"internal/netdir":     3,
	"internal/namespace":  3,
	"internal/ram":        3,
	"internal/role":       3,
	"internal/upstream":   3,
	"internal/outbound":   3,

	"fte/...":              4,
	"internal/circuit":     4,
	"internal/command/...": 4,
	"internal/fetch":       4,
	"internal/guard":       4,
	"internal/localhttp":   4,
	"internal/logline":     4,
	"internal/netfile":     4,
	"internal/ptspec":      4,
	"internal/site":        4,

	"internal/page":      5,
	"internal/path":      5,
	"internal/builtin":   6, // Chive's own transports, by package fte
	"internal/pt":        5,
	"internal/stream":    5,
	"internal/transport": 5,

	"internal/plugin": 7,
	"internal/pool":   6,

	"internal/dirclient": 7,
	"internal/dirserver": 7,

	"internal/control":   8,
	"internal/exit":      8,
	"internal/hsclient":  8,
	"internal/hsservice": 8,
	"internal/socks":     8,

	"internal/authority": 9,
	"internal/client":    9,
	"internal/relay":     9,
	"internal/userstack": 9,

	"": top,

	"authority": top + 1,
	"relay":     top + 1,
	"socks":     top + 1,

	"program":             top + 1, // what programs around Chive need
	"program/commandline": top + 1,

	"internal/proxydial":   top + 1, // what the proxy listeners dial through
	"internal/clientpage":  top + 1, // what a page shows of a client
	"internal/lab/ports":   3,       // ports of loopback: it knows of no network
	"internal/lab/target":  3,       // what traffic goes to: neither does it
	"internal/lab/labtest": 3,       // helpers of tests: neither do they
	"internal/lab/memconn": 5,       // connections in memory: it knows of no network
	"internal/lab/...":     top + 1,

	"internal/daemon": top + 2, // listeners and settings around a client
	"internal/watch":  top + 2, // a view of what the daemon tells
	"internal/tord":   top + 3, // the program tor: the daemon's client with a torrc and a control port
	"internal/cli":    top + 4, // the command line of the product; it does not link the laboratory
	"lab/...":         top + 2,

	"cmd/...": top + 5,

	// The laboratory's module.
	"chivelab":                       top + 8,
	"chivelab/internal/...":          top + 3,
	"chivelab/internal/bench":        top + 4,
	"chivelab/internal/benchonion":   top + 5,
	"chivelab/internal/benchcontrol": top + 5,
	"chivelab/internal/deploy":       top + 6,
	"chivelab/internal/experiment":   top + 5,
	"chivelab/internal/flood":        top + 5,
	"chivelab/internal/linkcheck":    top + 5,
	"chivelab/internal/links":        top + 3,
	"chivelab/internal/linkstack":    top + 4,
	"chivelab/internal/linktun":      top + 4,
	"chivelab/internal/labpage":      top + 5,
	"chivelab/internal/scale":        top + 4,
	"chivelab/internal/shadow":       top + 7,
	"chivelab/internal/shadowfile":   top + 2,
	"chivelab/internal/wan":          top + 5,
	"chivelab/plot":                  top + 2,

	"internal/rules":            top + 5, // tests of the whole tree
	"internal/tools/...":        top + 5, // programs of the project's own: no user runs them
	"internal/tools/metricrows": 1,       // tables of metrics, for such a program and for tests
	"interop/...":               top + 4,

	"internal/account/accounttest": support,
	"internal/hostile/...":         support,
	"internal/localhttp/guardtest": support,
	"internal/command/commandtest": support,
	"program/programtest":          support,
	"internal/panics/panicstest":   support,
	"internal/simnet/...":          support,
	"internal/testvec/...":         support,
}

// measures reports whether a package, by its path inside the module, belongs to
// the laboratory or to the tests against other programs. Programs for users do
// not contain such packages.
func measures(rel string) bool {
	return rel == "lab" || strings.HasPrefix(rel, "lab/") || rel == "chivelab" || strings.HasPrefix(rel, "chivelab/") || strings.HasPrefix(rel, "internal/lab/") || strings.HasPrefix(rel, "interop")
}

// goPackage is what this test reads from go list.
type goPackage struct {
	ImportPath   string
	Dir          string
	Doc          string // the first sentence of the package's comment
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// listed returns every package of this module and of the laboratory's.
func listed(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,GoFiles,Imports,TestImports,XTestImports", "./...", "./chivelab/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, p)
	}
}

// levelOf returns the level of an import path, and whether the path belongs
// to this module at all.
func levelOf(t *testing.T, path string) (level int, ours bool) {
	t.Helper()
	if path != module && !strings.HasPrefix(path, module+"/") {
		return 0, false
	}
	rel := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
	if l, ok := levels[rel]; ok {
		return l, true
	}
	for dir := rel; dir != "."; dir = filepath.Dir(dir) {
		if l, ok := levels[dir+"/..."]; ok {
			return l, true
		}
	}
	t.Errorf("package %s has no level: add it to the table in levels_test.go", path)
	return support, true
}

// TestLevels checks every import of this module against the table.
func TestLevels(t *testing.T) {
	for _, p := range listed(t) {
		own, _ := levelOf(t, p.ImportPath)
		for _, imp := range p.Imports {
			l, ours := levelOf(t, imp)
			if !ours || sameTree(p.ImportPath, imp) {
				continue
			}
			switch {
			case l == support && own != support:
				t.Errorf("%s imports %s, which is for tests only", p.ImportPath, imp)
			case own == support && l >= top && l != support:
				t.Errorf("%s (test support) imports %s, of level %d", p.ImportPath, imp, l)
			case own != support && l >= own:
				t.Errorf("%s (level %d) imports %s (level %d): import lower levels only", p.ImportPath, own, imp, l)
			}
		}
		// A package's own tests may import packages of its level, but not of
		// higher ones. Its external tests are like users of the package, and may
		// import any package.
		for _, imp := range p.TestImports {
			if l, ours := levelOf(t, imp); ours && l != support && l > own && own != support {
				t.Errorf("a test inside %s (level %d) imports %s (level %d)", p.ImportPath, own, imp, l)
			}
		}
		for _, imp := range p.XTestImports {
			if l, ours := levelOf(t, imp); ours && l != support && l >= top && l > own {
				t.Errorf("a test of %s (level %d) imports %s (level %d)", p.ImportPath, own, imp, l)
			}
		}
	}
}

// sameTree reports whether both paths are covered by one "/..." entry, inside
// which packages may import each other (Go forbids cycles).
func sameTree(a, b string) bool {
	for k := range levels {
		tree, ok := strings.CutSuffix(k, "/...")
		if !ok {
			continue
		}
		tree = module + "/" + tree
		in := func(p string) bool { return p == tree || strings.HasPrefix(p, tree+"/") }
		if in(a) && in(b) {
			return true
		}
	}
	return false
}

// impure names the functions that levels 0 to 2 must leave to their callers.
var impure = map[string][]string{
	"time":        {"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"},
	"crypto/rand": nil, // nil: the whole package
	"math/rand":   nil,
	"net":         nil,
	"net/http":    nil,
	"os":          nil,
	"os/exec":     nil,
}

// TestPureLevels checks that levels 0 to 2 start no goroutine, open no socket
// or file, and read no clock and no randomness of their own.
func TestPureLevels(t *testing.T) {
	for _, p := range listed(t) {
		if l, _ := levelOf(t, p.ImportPath); l > pure {
			continue
		}
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, why := range impurities(f) {
				t.Errorf("%s/%s: level %d and below take it as a parameter: %s", p.ImportPath, name, pure, why)
			}
		}
	}
}

// impurities lists what a pure package's file must not do.
func impurities(f *ast.File) []string {
	var found []string
	names := map[string]string{} // local name of an import -> path
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			continue
		}
		calls, watched := impure[path]
		switch {
		case watched && calls == nil:
			found = append(found, "import of "+path)
		case watched && i.Name != nil:
			names[i.Name.Name] = path
		case watched:
			names[filepath.Base(path)] = path
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, "go statement")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(impure[names[x.Name]], n.Sel.Name) {
				found = append(found, x.Name+"."+n.Sel.Name)
			}
		}
		return true
	})
	return found
}

// TestImpurities shows that the check can fail.
func TestImpurities(t *testing.T) {
	const src = `package p
import ("net/netip"; clock "time"; "os")
var _ = clock.Now
var _ clock.Duration
var _ netip.Addr
func f() { go f(); os.Exit(1) }`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"import of os", "clock.Now", "go statement"}
	if got := impurities(f); !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}
