package lang

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/chivenet/chive/fte/internal/formats"
	"github.com/chivenet/chive/internal/fault"
)

// testFormats calls f for every format of every built-in release, compiled as
// its version of fteproxy does.
func testFormats(t testing.TB, f func(t testing.TB, name string, l *Language, s *Slice)) {
	for _, release := range formats.Releases() {
		d, err := formats.Builtin(release)
		if err != nil {
			t.Fatal(err)
		}
		for _, fm := range d.Formats {
			opts := Options{ClassicEscapes: true}
			if release == "20131224" {
				opts = Options{Order: FirstAppearance}
			}
			l, err := Compile(fm.Pattern, opts)
			if err != nil {
				t.Fatalf("%s: %v", fm.Name, err)
			}
			s, err := l.Slice(fm.Slice)
			if err != nil {
				t.Fatalf("%s: %v", fm.Name, err)
			}
			run := func(t testing.TB) { f(t, fm.Name, l, s) }
			switch t := t.(type) {
			case *testing.T:
				t.Run(release+"/"+fm.Name, func(t *testing.T) { run(t) })
			default:
				run(t)
			}
		}
	}
}

// vectorFile is testdata/ranks-*.json; its origin is noted in the file.
type vectorFile struct {
	Vectors []struct {
		Release, Format string
		Capacity        int
		X, Word         string
		Count           string
	}
}

func TestVectors(t *testing.T) {
	for file, opts := range map[string]Options{
		"testdata/ranks-0.3.2.json":  {ClassicEscapes: true},
		"testdata/ranks-0.2.19.json": {Order: FirstAppearance},
	} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var vf vectorFile
		if err := json.Unmarshal(raw, &vf); err != nil {
			t.Fatal(err)
		}
		if len(vf.Vectors) < 24 {
			t.Fatalf("%s holds %d vectors", file, len(vf.Vectors))
		}
		for _, v := range vf.Vectors {
			d, err := formats.Builtin(v.Release)
			if err != nil {
				t.Fatal(err)
			}
			fm, _ := d.Lookup(v.Format)
			l, err := Compile(fm.Pattern, opts)
			if err != nil {
				t.Fatal(err)
			}
			s, err := l.Slice(fm.Slice)
			if err != nil {
				t.Fatal(err)
			}
			if v.Count != "" && v.Count != s.Count().String() {
				t.Errorf("%s: count %s, want %s", v.Format, s.Count(), v.Count)
			}
			x, _ := hex.DecodeString(v.X)
			word, _ := hex.DecodeString(v.Word)
			if s.CapacityBits() != v.Capacity || s.Bytes() != len(x) {
				t.Fatalf("%s: capacity %d, want %d", v.Format, s.CapacityBits(), v.Capacity)
			}
			got := make([]byte, s.Len())
			if err := s.Unrank(got, x); err != nil || !bytes.Equal(got, word) {
				t.Errorf("%s %s: unrank %s:\n got %q\nwant %q (%v)", file, v.Format, v.X, got, word, err)
			}
			back := make([]byte, s.Bytes())
			if err := s.Rank(back, word); err != nil || !bytes.Equal(back, x) {
				t.Errorf("%s %s: rank gives %x, want %s (%v)", file, v.Format, back, v.X, err)
			}
		}
	}
}

// slow is the definition of rank and unrank, with math/big.
type slow struct {
	l *Language
	t [][]*big.Int // t[i][q]: words of length i from state q
}

func newSlow(l *Language, n int) *slow {
	s := &slow{l: l}
	for i := 0; i <= n; i++ {
		row := make([]*big.Int, l.States())
		for q := range row {
			row[q] = new(big.Int)
			if i == 0 {
				if l.d.accept[q] {
					row[q].SetInt64(1)
				}
				continue
			}
			for _, b := range l.order {
				if t := l.flat[q<<8|int(b)]; t != dead {
					row[q].Add(row[q], s.t[i-1][t])
				}
			}
		}
		s.t = append(s.t, row)
	}
	return s
}

func (s *slow) unrank(n int, c *big.Int) []byte {
	c = new(big.Int).Set(c)
	q := int32(0)
	var out []byte
	for i := n - 1; i >= 0; i-- {
		for _, b := range s.l.order {
			t := s.l.flat[int(q)<<8|int(b)]
			if t == dead {
				continue
			}
			if c.Cmp(s.t[i][t]) < 0 {
				out = append(out, b)
				q = t
				break
			}
			c.Sub(c, s.t[i][t])
		}
	}
	return out
}

// testNumbers are edge cases and random numbers of the slice's size.
func testNumbers(s *Slice, r *rand.Rand, n int) [][]byte {
	var out [][]byte
	for k := range n {
		x := make([]byte, s.Bytes())
		for i := range x {
			switch k {
			case 0:
			case 1:
				x[i] = 0xff
			default:
				x[i] = byte(r.Uint32())
			}
		}
		if k > 1 && k%3 == 0 {
			clear(x[:r.IntN(len(x)+1)]) // small numbers
		}
		out = append(out, x)
	}
	return out
}

// checkSlice holds a slice to the reference on some numbers, and on the
// neighbourhood of the borders between symbols, where estimates are weakest.
func checkSlice(t testing.TB, name string, s *Slice, r *rand.Rand, n int) {
	t.Helper()
	ref := newSlow(s.lang, s.n)
	if ref.t[s.n][0].Cmp(s.Count()) != 0 {
		t.Fatalf("%s: count %v, want %v", name, s.Count(), ref.t[s.n][0])
	}
	numbers := testNumbers(s, r, n)
	limit := new(big.Int).Lsh(big.NewInt(1), uint(8*s.bytes))
	for range n {
		// Sums of counts, and one less, are the borders.
		sum := new(big.Int)
		for range 1 + r.IntN(3) {
			row := ref.t[r.IntN(s.n+1)]
			v := new(big.Int).Mul(row[r.IntN(len(row))], big.NewInt(int64(r.IntN(70))))
			if sum.Add(sum, v); sum.Cmp(limit) >= 0 {
				sum.Sub(sum, v)
			}
		}
		for range 2 {
			if sum.Sign() >= 0 && sum.Cmp(limit) < 0 {
				numbers = append(numbers, sum.FillBytes(make([]byte, s.bytes)))
			}
			sum.Sub(sum, big.NewInt(1))
		}
	}
	word, back := make([]byte, s.Len()), make([]byte, s.Bytes())
	for _, x := range numbers {
		if err := s.Unrank(word, x); err != nil {
			t.Fatalf("%s: unrank %x: %v", name, x, err)
		}
		if want := ref.unrank(s.n, new(big.Int).SetBytes(x)); !bytes.Equal(word, want) {
			t.Fatalf("%s: unrank %x:\n got %q\nwant %q", name, x, word, want)
		}
		if err := s.Rank(back, word); err != nil || !bytes.Equal(back, x) {
			t.Fatalf("%s: rank(unrank(%x)) = %x, %v", name, x, back, err)
		}
	}
}

func TestSliceAgainstReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	testFormats(t, func(t testing.TB, name string, l *Language, s *Slice) {
		checkSlice(t, name, s, r, 30)
	})
}

func TestSliceShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, pattern := range []string{
		`[a-c]{3}(x[0-9]+|y[0-9a-f]+)[k-m]*`,
		`([a-z][0-9])+`, `([a-z][0-9]?)+`, `([ab]c|[de][fgh])*i?`,
		`(\C[a-z])+`, `[01]*2[01]*`, `(a|bb|ccc)+`, `[a-y]{40}z[a-y]*`,
		`a[a-z]*|b[0-9]{3}|c\C*`, `a[0-9]{1,20}[a-z]+|z\C+`, `(ab|cd){20,30}`,
		`[b-d]\C{40}|a[0-9]{1,39}[a-z]*`, `\C*`, `(x|[0-9]{7}y)+`,
	} {
		l, err := Compile(pattern, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 2, 3, 7, 8, 20, 41, 42, 60, 64, 100, 300} {
			s, err := l.Slice(n)
			if err != nil {
				if !fault.Is(err, fault.Config) || newSlow(l, n).t[n][0].Sign() != 0 {
					t.Fatal(err)
				}
				continue
			}
			checkSlice(t, pattern, s, r, 20)
		}
	}
}
