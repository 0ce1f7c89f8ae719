package tomlfile

import (
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/chivenet/chive/internal/fault"
)

// TestNesting checks files that would end the process, or keep it busy for hours,
// if they reached the parser.
func TestNesting(t *testing.T) {
	deep := maxNesting + 1
	for name, doc := range map[string]string{
		"arrays":        "name = " + strings.Repeat("[", MaxSize-10),
		"closed arrays": "name = " + strings.Repeat("[", deep) + strings.Repeat("]", deep),
		"tables":        "name = " + strings.Repeat("{a=", MaxSize/3-10),
		"keys":          strings.Repeat("a.", MaxSize/2-10) + "b = 1",
		"quoted keys":   strings.Repeat(`"a" . `, deep) + "b = 1",
		"headers":       "[" + strings.Repeat("a.", deep) + "b]",
		"behind a text": `a = """ \""" """"` + "\n" + `b = """"""` + "\nc = '''[ ' '''''\nd = '['\ne = " + strings.Repeat("[", deep),
		"open string":   "a = \"\nb = \"" + strings.Repeat("[", deep),
	} {
		var v map[string]any
		if err := Decode("file", []byte(doc), &v, nil); !fault.Is(err, fault.Config) || len(err.Error()) > 200 {
			t.Errorf("%s: %.200v", name, err)
		}
	}
	for _, doc := range []string{
		"a = [[[1, 2.5], [3]], []]\n[b.c.\"d.e.f\"]\ng = { h.i = 1, j = [] } # [[[[",
		"a = " + strings.Repeat("[", maxNesting) + strings.Repeat("]", maxNesting),
		"a = '''\n" + strings.Repeat("[", 1000) + "'''\nb = \"\"\"" + strings.Repeat("{.", 1000) + "\\\"\"\"\"\"\"\nc = '" + strings.Repeat("[", 100) + "'",
		strings.Repeat("[[a]]\n", 1000),
	} {
		if err := checkNesting([]byte(doc)); err != nil {
			t.Errorf("%.60q: %v", doc, err)
		}
		if _, err := toml.Decode(doc, new(map[string]any)); err != nil {
			t.Errorf("%.60q is no TOML: %v", doc, err)
		}
	}
}

// depth returns how deep arrays, tables and key parts are nested.
func depth(v any) int {
	most := 0
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			most = max(most, depth(x))
		}
	case []any:
		for _, x := range v {
			most = max(most, depth(x))
		}
	case []map[string]any:
		for _, x := range v {
			most = max(most, depth(x))
		}
	default:
		return 0
	}
	return most + 1
}

// FuzzNesting compares checkNesting with the parser: a document that the parser
// accepts and that is not deep passes, and a document that passes is not deep.
func FuzzNesting(f *testing.F) {
	f.Add("a = [[1], {b = 2}]\n[c.d]\n\"e.f\".g = '''x'''\n")
	f.Add("a = \"\"\"x\\\"\"\"\"\" # [[[\nb = ''\nc = '\"'\n")
	f.Add("[[a]]\nb = 1979-05-27T07:32:00.999Z\nc = 1_000.5e3\n[a.c]\n")
	f.Fuzz(func(t *testing.T, doc string) {
		if len(doc) > 4096 || strings.Contains(doc, strings.Repeat("[", 4*maxNesting)) {
			return
		}
		var v map[string]any
		if _, err := toml.Decode(doc, &v); err != nil {
			return
		}
		d, err := depth(v), checkNesting([]byte(doc))
		shallow := strings.Count(doc, ".") <= maxNesting && strings.Count(doc, "[")+strings.Count(doc, "{") <= maxNesting
		if shallow && err != nil {
			t.Fatalf("%q: %v", doc, err)
		}
		// A header, a dotted key in it, and arrays may each have the greatest
		// depth.
		if d > 4*maxNesting && err == nil {
			t.Fatalf("%d levels pass", d)
		}
	})
}
