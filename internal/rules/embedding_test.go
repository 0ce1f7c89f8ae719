package rules

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"strings"
	"testing"
)

// embeddingFrame has what the fragments of docs/embedding.md take for granted.
const embeddingFrame = `package p

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/program"
	"github.com/chivenet/chive/relay"
	"github.com/chivenet/chive/socks"
)

func _(ctx context.Context, client *chive.Client, nw *lab.Network, listener net.Listener, handler http.Handler, dir string, t *testing.T) error {
	{
%s
	}
	return nil
}
`

// TestEmbedding: the Go fragments of docs/embedding.md compile.
func TestEmbedding(t *testing.T) {
	text, err := os.ReadFile("docs/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	_, imports := exported(t, fset, []string{module, module + "/lab", module + "/program", module + "/relay", module + "/socks", "testing", "net/http"})
	fragments := strings.Split(string(text), "\n```go\n")[1:]
	for i, fragment := range fragments {
		code, _, ended := strings.Cut(fragment, "\n```\n")
		if !ended {
			t.Fatalf("fragment %d does not end", i+1)
		}
		f, err := parser.ParseFile(fset, fmt.Sprintf("fragment%d.go", i+1), fmt.Sprintf(embeddingFrame, code), parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%v in:\n%s", err, code)
			continue
		}
		cfg := types.Config{Importer: imports, Error: func(err error) {
			// What a fragment declares and does not use is for its reader.
			if e, ok := errors.AsType[types.Error](err); !ok || !e.Soft {
				t.Errorf("%v in:\n%s", err, code)
			}
		}}
		_, _ = cfg.Check("p", fset, []*ast.File{f}, nil) // Error has had all errors
	}
	if len(fragments) < 6 {
		t.Errorf("only %d fragments", len(fragments))
	}
}
