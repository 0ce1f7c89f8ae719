package hsclient

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
)

// TestAddFile: a key comes from a file that is its owner's alone.
func TestAddFile(t *testing.T) {
	// The base point of Ed25519 is as good a public key as any.
	id := ident.Ed25519ID{0x58}
	for i := 1; i < len(id); i++ {
		id[i] = 0x66
	}
	line := strings.TrimSuffix(hscrypto.Address(id), ".onion") + ":descriptor:x25519:" + strings.Repeat("A", 51) + "Q"
	path := filepath.Join(t.TempDir(), "alice.auth_private")
	if err := os.WriteFile(path, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := Keys{}
	if err := keys.AddFile(path); err != nil || keys[id] == nil {
		t.Errorf("%v %v", keys, err)
	}
	if err := keys.AddFile(path + "2"); err == nil {
		t.Error("a file that is not there")
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (Keys{}).AddFile(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
}
