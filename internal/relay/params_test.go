package relay

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// readParams returns the names of the consensus parameters that the packages of this
// directory's parent read: those of calls with a name, a default and two bounds.
func readParams(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	param := regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]+$`)
	names := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 4 {
				return true
			}
			first := call.Args[0]
			if sum, ok := first.(*ast.BinaryExpr); ok { // a name, and what may follow it
				first = sum.X
			}
			for i, a := range append([]ast.Expr{first}, call.Args[1:]...) {
				l, lit := a.(*ast.BasicLit)
				if text := lit && l.Kind == token.STRING; text != (i == 0) {
					return true
				}
			}
			if s, err := strconv.Unquote(first.(*ast.BasicLit).Value); err == nil && param.MatchString(s) {
				names[s] = true
			}
			return true
		})
	}
	var out []string
	for n := range names {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// TestExtremeParams: whatever number a consensus gives to a parameter, a relay goes on
// serving: each one at its extremes alone, and then all of them together.
func TestExtremeParams(t *testing.T) {
	names := readParams(t)
	for _, known := range []string{"DoSBeginDirRate", "DoSStreamCreationBurst", "cc_sendme_inc", "circwindow", "onion-key-rotation-days", "circ_max_cell_queue_size", "nf_ito_low", "HSV3MaxDescriptorSize", "dos_num_circ_max_outq"} {
		if !slices.Contains(names, known) {
			t.Errorf("%s was not found among %d", known, len(names))
		}
	}
	made, err := dirgen.New(dirgen.Options{Relays: 3, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^params .*$`)
	panicked := panics.Total()
	v := startVictim(t, nil)
	// turns gives the relay a consensus with these parameters.
	turns := func(p netdoc.Params) *netdir.Directory {
		text := line.ReplaceAll(bytes.Clone(made.Consensus), []byte("params "+p.String()))
		var l netdir.Loader
		d, _, err := l.Consensus(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		served, err := dirserver.NewConsensus(text)
		if err != nil {
			t.Fatal(err)
		}
		v.cache.docs.SetConsensus(served)
		v.useConsensus(d)
		return d
	}
	// begin makes a circuit, and has directory and exit streams opened and lookups begun on
	// it, without waiting.
	begin := func(u *user, d *netdir.Directory) {
		p := flow.ParamsFrom(d.Param) // both ends must go by the same
		c, err := circuit.Create(within(t), userEnv, u.ch, u.v.Target(), circuit.HopOptions{Congestion: true, Flow: &p})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(cell.DestroyNone, nil)
		for id := range uint16(3) {
			_ = c.Last().Send(cell.RelayBeginDir, 1+3*id, nil)
			_ = c.Last().Send(cell.RelayResolve, 2+3*id, []byte("a.test\x00"))
			_ = c.Last().Send(cell.RelayBegin, 3+3*id, []byte("b.test:80\x00\x00\x00\x00\x00"))
		}
	}
	values := []int32{math.MinInt32, -1, 0, 1, math.MaxInt32}
	for _, name := range names {
		for _, value := range values {
			what := fmt.Sprintf("%s=%d", name, value)
			d := turns(netdoc.Params{{Name: name, Value: value}})
			v.cache.dir = func() *netdir.Directory { return d }
			if n := v.cache.maxUpload(dirserver.HSPublishPath); n < 1 {
				t.Errorf("%s: uploads of %d bytes", what, n)
			}
			u := v.connect(t, nil)
			begin(u, d)
			u.use()
			if n := panics.Total() - panicked; n != 0 {
				t.Fatalf("%s: %d panics", what, n)
			}
			u.ch.Close(nil)
		}
	}
	for _, value := range values {
		var all netdoc.Params
		for _, name := range names {
			all = append(all, netdoc.Param{Name: name, Value: value})
		}
		turns(all)
		turns(nil) // and back
		v.connect(t, nil).use()
	}
	if n := panics.Total() - panicked; n != 0 {
		t.Errorf("%d panics", n)
	}
}
