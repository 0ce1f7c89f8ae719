package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// fteFormatsCommand lists the formats of a release.
func fteFormatsCommand(f *fteFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "formats",
		Short: "List formats with their capacity and expansion",
		Long: `List formats with their capacity and expansion: how many bytes a word has, how many bits it can tell
apart, how many whole bytes it holds, and how many bytes of text there are for each of these. Strict mode
codes all text as one word, and comes nearer to the bits. -request is what a client sends, -response what
a server does.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defs, err := f.load()
			if err != nil {
				return err
			}
			if err := Printf(cmd, "%-24s %5s %5s %5s %9s  %s\n", "format", "bytes", "bits", "holds", "expansion", "pattern"); err != nil {
				return err
			}
			for _, name := range defs.Names() {
				for _, dir := range []string{"-request", "-response"} {
					format, err := defs.Format(name + dir)
					if err != nil {
						return err
					}
					w, err := format.Words()
					if err != nil {
						return err
					}
					if err := Printf(cmd, "%-24s %5d %5d %5d %9.2f  %s\n", format.Name, w.Len(), w.CapacityBits(), w.Bytes(),
						float64(w.Len())/float64(w.Bytes()), format.Pattern); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}

// fteTestCommand proves one format: both protocols, both directions.
func fteTestCommand(f *fteFlags) *cobra.Command {
	var format string
	var size int
	cmd := &cobra.Command{
		Use:   "test --format NAME",
		Short: "Send random bytes through a format, both protocols and both ways",
		Long: `Send random bytes through a format over loopback, in each protocol and mode, both ways, and compare what
arrives. Both ends run in this process, so that the speeds are those of one machine doing both.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if size < 1 || size > 1<<30 {
				return fault.New(fault.Config, "--bytes is between 1 and %d", 1<<30)
			}
			defs, err := f.load()
			if err != nil {
				return err
			}
			format = strings.TrimSuffix(strings.TrimSuffix(format, "-request"), "-response")
			req, resp, err := defs.Pair(format)
			if err != nil {
				return err
			}
			key, err := fte.NewServerKey(rand.Reader)
			if err != nil {
				return err
			}
			classic := fte.Classic{Definitions: defs, Format: format}
			strict := fte.Protocol{Request: req, Response: resp, Cert: key.Cert(), Keys: []*fte.ServerKey{key}}
			cells, bulk := strict, strict
			cells.Mode, bulk.Mode = fte.Cells, fte.Bulk
			for _, p := range []struct {
				name           string
				client, server func() (fte.Transport, error)
			}{
				{"classic", classic.Dialer, classic.Acceptor},
				{"chive, strict", strict.Dialer, strict.Acceptor},
				{"chive, cells", cells.Dialer, cells.Acceptor},
				{"chive, bulk", bulk.Dialer, bulk.Acceptor},
			} {
				d, err := fteTest(cmd.Context(), p.client, p.server, size)
				if err != nil {
					return fault.New(fault.KindOf(err), "%s: %s: %w", format, p.name, err)
				}
				if err := Printf(cmd, "%s: %s: %d bytes each way are the same at the other end, %.0f Mbit/s\n",
					format, p.name, size, 2*8*float64(size)/d.Seconds()/1e6); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", fte.DefaultFormat, "`NAME` of the format; -request or -response at its end changes nothing")
	cmd.Flags().IntVar(&size, "bytes", 10<<20, "`NUMBER` of bytes to send each way")
	if err := cmd.RegisterFlagCompletionFunc("format", f.formatNames("")); err != nil {
		panic(err) // the flag is above
	}
	return cmd
}

// fteTest sends size bytes each way over loopback and compares. It stops when ctx ends.
func fteTest(ctx context.Context, client, server func() (fte.Transport, error), size int) (time.Duration, error) {
	ct, err := client()
	if err != nil {
		return 0, err
	}
	st, err := server()
	if err != nil {
		return 0, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fault.New(fault.Network, "listening: %w", err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return 0, fault.New(fault.Network, "connecting: %w", err)
	}
	defer a.Close()
	b, err := l.Accept()
	if err != nil {
		return 0, fault.New(fault.Network, "accepting: %w", err)
	}
	defer b.Close()
	defer context.AfterFunc(ctx, panics.Contain(nil, nil, func() { a.Close(); b.Close() }))()
	c, s := ct.Wrap(a), st.Wrap(b)
	up, down := make([]byte, size), make([]byte, size)
	rand.Read(up)
	rand.Read(down)
	start := time.Now()
	for _, way := range []struct {
		from, to *fte.Conn
		data     []byte
	}{{c, s, up}, {s, c, down}} {
		sent := make(chan error, 1)
		go func() {
			defer panics.Recover(nil, func(err error) { sent <- err })
			_, err := way.from.Write(way.data)
			if err == nil {
				err = way.from.CloseWrite()
			}
			sent <- err
		}()
		got, err := io.ReadAll(way.to)
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if err != nil {
			return 0, err
		}
		if err := <-sent; err != nil {
			return 0, err
		}
		if !bytes.Equal(got, way.data) {
			return 0, fault.New(fault.Local, "what arrives isn't what was sent")
		}
	}
	return time.Since(start), nil
}

// fteKeygenCommand makes a server's key.
func fteKeygenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "keygen FILE",
		Short: "Make a server's key (--protocol chive) and print its certificate",
		Long: `Make a server's key and print its certificate.

If FILE exists, the new key goes before the others in it: clients with an old certificate still get
in until its line is removed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := fte.NewServerKey(rand.Reader)
			if err != nil {
				return err
			}
			old, err := atomicfile.Read(args[0], maxServerKeys)
			if err != nil && !os.IsNotExist(err) {
				return fault.New(fault.Config, "key file: %w", err)
			}
			if len(bytes.TrimSpace(old)) > 0 {
				if _, err := fte.ParseServerKeys(bytes.NewReader(old)); err != nil {
					return fault.New(fault.Config, "%s is no file of keys: %w", args[0], err)
				}
			}
			all := append([]byte(k.Line()+"\n"), old...)
			if _, err := fte.ParseServerKeys(bytes.NewReader(all)); err != nil {
				return fault.New(fault.Config, "%s: %w", args[0], err)
			}
			if err := atomicfile.Write(args[0], all, atomicfile.Secret); err != nil {
				return fault.New(fault.Local, "key file: %w", err)
			}
			return Printf(cmd, "%s\n", k.Cert().Line())
		},
	}
}
