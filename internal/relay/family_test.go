package relay

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
)

const (
	fpA = "A000000000000000000000000000000000000001"
	fpB = "B000000000000000000000000000000000000002"
)

func TestParseFamilyList(t *testing.T) {
	got, err := ParseFamilyList("# mine\nMyFamily $" + strings.ToLower(fpA) + "=one,\t" + fpB + " # two\n\n$" + fpA + "~three")
	if err != nil || !slices.Equal(got, []string{"$" + fpA, "$" + fpB, "$" + fpA}) {
		t.Error(got, err)
	}
	for _, bad := range []string{"nickname", "$" + fpA[1:], fpA + "0", "FamilyId *"} {
		if _, err := ParseFamilyList(bad); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := ParseFamilyList(strings.Repeat(fpA+" ", maxFamilyList+1)); !fault.Is(err, fault.Config) {
		t.Error("no bound", err)
	}
}

func FuzzParseFamilyList(f *testing.F) {
	f.Add("MyFamily $" + fpA + "," + fpB + "\n# x\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseFamilyList(text)
		if err != nil {
			return
		}
		again, err := ParseFamilyList(strings.Join(list, ","))
		if err != nil || !slices.Equal(list, again) {
			t.Errorf("%q: %q: %v", list, again, err)
		}
	})
}

// A family certificate is valid for one relay only, as authorities verify it.
func TestFamilyKey(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	k := load(t, dir, now)
	name := filepath.Join(dir, "keys", "mine")
	id, err := MakeFamilyKey(name)
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(name + familyPublicSuffix)
	if err != nil || string(public) != id+"\n" {
		t.Errorf("%q, not %q: %v", public, id, err)
	}
	if _, err := MakeFamilyKey(name); !fault.Is(err, fault.Config) {
		t.Error("a key was replaced", err)
	}
	for _, ids := range [][]string{{id}, {"*"}} {
		f, err := loadFamily(k.dir, k.ID.RSA, []string{fpB, "$" + fpA, fpB}, ids)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"$" + fpA, "$" + fpB, "$" + k.ID.RSA.String()}; !slices.Equal(slices.Sorted(slices.Values(want)), f.list) {
			t.Errorf("%q, not %q", f.list, want)
		}
		certs := f.certs(k.ID.Ed, now)
		if len(certs) != 1 {
			t.Fatal(len(certs), "certificates")
		}
		c, err := cert.ParseEd25519(certs[0])
		if err != nil || !c.HasSigner || c.Signer.String() != id || c.Key != k.ID.Ed {
			t.Fatal(c, err)
		}
		if err := c.Verify(cert.FamilyVIdentity, c.Signer, now.Add(29*day)); err != nil {
			t.Error(err)
		}
		if err := c.Verify(cert.FamilyVIdentity, c.Signer, now.Add(31*day)); err == nil {
			t.Error("it lives for ever")
		}
	}
}

func TestFamilyKeyMissing(t *testing.T) {
	dir := t.TempDir()
	k := load(t, dir, time.Now())
	for _, ids := range []string{"*", strings.Repeat("A", 43), "mine"} {
		if _, err := loadFamily(k.dir, k.ID.RSA, nil, []string{ids}); !fault.Is(err, fault.Config) {
			t.Errorf("%s: %v", ids, err)
		}
	}
	if err := os.WriteFile(k.dir.path("bad"+familySecretSuffix), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadFamily(k.dir, k.ID.RSA, nil, []string{"*"}); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
}

// A file of a family key that C tor made (tor --keygen-family, 0.4.9.11).
func TestFamilyKeyOfTor(t *testing.T) {
	keys, err := keyDir(filepath.Join("testdata", "family")).familyKeys()
	if err != nil || len(keys) != 1 {
		t.Fatal(len(keys), err)
	}
	public, err := os.ReadFile(filepath.Join("testdata", "family", "tor"+familyPublicSuffix))
	if err != nil || keys[0].Public().String()+"\n" != string(public) {
		t.Errorf("%s, not %s: %v", keys[0].Public(), public, err)
	}
}
