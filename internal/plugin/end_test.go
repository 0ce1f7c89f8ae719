package plugin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ptspec"
)

// TestEndWhileDialing: a plugin that is told to end does not wait for a bridge that does not
// answer.
func TestEndWhileDialing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := &plugin{open: map[io.Closer]struct{}{}, out: &lines{w: io.Discard}, log: slog.New(slog.DiscardHandler), ctx: ctx}
		tor, c := net.Pipe()
		defer tor.Close()
		p.keep(c)
		p.wg.Go(func() {
			p.client(c, "fte", func(ctx context.Context, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			})
		})
		go io.Copy(io.Discard, tor)
		if _, err := io.WriteString(tor, "\x05\x01\x00"+"\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		cancel()
		p.close()
		if d := time.Since(began); d != 0 {
			t.Errorf("the plugin ends after %v", d)
		}
	})
}

// TestEndWhileAsking: the same for a Tor whose ExtORPort says nothing.
func TestEndWhileAsking(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cookie := filepath.Join(t.TempDir(), "cookie")
	if err := os.WriteFile(cookie, []byte(ptspec.CookieHeader+strings.Repeat("c", ptspec.CookieLen)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		if c, err := l.Accept(); err == nil {
			defer c.Close()
			cancel()
			io.Copy(io.Discard, c)
		}
	}()
	p := &plugin{env: &ptspec.Env{ExtORPort: netip.MustParseAddrPort(l.Addr().String()), CookieFile: cookie}}
	if _, err := p.dialOR(ctx, netip.AddrPort{}, "fte"); !errors.Is(err, context.Canceled) {
		t.Error("the plugin waited:", err)
	}
}
