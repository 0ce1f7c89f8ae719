package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/options"
)

// fteFlags are the flags of chive fte. Flags of fteproxy have the same names and
// defaults, with "-" for "_", which is accepted too.
type fteFlags struct {
	mode, protocol         string
	clientIP, serverIP     string
	proxyIP                string
	clientPort, serverPort uint16
	proxyPort              uint16
	upstream, downstream   string
	key, keyFile           string
	release, definitions   string
	order019, quiet        bool

	cert, wire       string
	pq, chacha       bool
	padTo, padRandom int
	delay            time.Duration

	maxConns, maxPending int
	maxMemory            int64
	handshake, drain     time.Duration
	decoy, metrics       string
	metricsHosts         []string
	http                 bool
	httpURL, httpHost    string
	httpProxy            string
	stop                 bool

	publicKey bool // everybody knows the key; set by transport
}

// The words that flags of chive fte can have, the default first.
var (
	fteModes     = []string{"client", "server"}
	fteProtocols = []string{"classic", "chive"}
	fteWires     = []string{"strict", "cells", "bulk"}
	fteReleases  = []string{"20260110", "20131224"}
)

func fteCommand() *cobra.Command {
	var f fteFlags
	cmd := &cobra.Command{
		Use:   "fte --mode client|server",
		Short: "Carry TCP connections in a format (format-transforming encryption)",
		Long: `Carry TCP connections in a format: every message looks like a word of a regular language.

A client listens on --client-ip:--client-port and connects to a server at --server-ip:--server-port,
which connects to --proxy-ip:--proxy-port once the client is authenticated.

--protocol classic talks to fteproxy 0.3.2. Without --key or --key-file, it uses fteproxy's built-in key, which is
public: everybody can then read the connections and use the server. The log warns of it, and the metric
chive_fte_public_key is 1. --protocol chive is Chive's own, with a key for each
server: "chive fte keygen FILE" makes one and prints the certificate that clients give as --cert.
A flag's text begins with the protocol or the side that it is for, if it isn't for all.`,
		Example: `  chive fte keygen keys
  chive fte --mode server --protocol chive --key-file keys --server-ip 0.0.0.0 --upstream-format words-request
  chive fte --mode client --protocol chive --cert chive-fte-cert-1:... --server-ip 203.0.113.5 --upstream-format words-request`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags()); err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	TakesTime(cmd)
	p := cmd.PersistentFlags()
	cmd.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	p.Var(options.Word{At: &f.release, Of: fteReleases}, "release", "`NUMBER` of built-in definitions: 20260110 (fteproxy 0.3.2) or 20131224 (0.2.19; default 20260110)")
	p.StringVar(&f.definitions, "definitions", "", "`FILE` of definitions, named YYYYMMDD.json, instead of a release")
	p.BoolVar(&f.order019, "order-0.2", false, "number words as fteproxy 0.2.19 does")
	l := cmd.Flags()
	f.mode, f.protocol, f.wire = fteModes[0], fteProtocols[0], fteWires[0]
	l.Var(options.Word{At: &f.mode, Of: fteModes}, "mode", "`MODE` client or server")
	l.Var(options.Word{At: &f.protocol, Of: fteProtocols}, "protocol", "`PROTOCOL` classic (fteproxy's) or chive")
	l.StringVar(&f.clientIP, "client-ip", "127.0.0.1", "client: `IP` to listen at")
	l.Uint16Var(&f.clientPort, "client-port", 8079, "client: `PORT` to listen at")
	l.StringVar(&f.serverIP, "server-ip", "127.0.0.1", "`IP` where the server listens and the client connects; IPv6 too")
	l.Uint16Var(&f.serverPort, "server-port", 8080, "`PORT` where a server listens and a client connects")
	l.StringVar(&f.proxyIP, "proxy-ip", "127.0.0.1", "server: `IP` to connect to")
	l.Uint16Var(&f.proxyPort, "proxy-port", 8081, "server: `PORT` to connect to")
	l.StringVar(&f.upstream, "upstream-format", "", "client-to-server `FORMAT` (default manual-http-request); a classic server understands every format and tries this one first")
	l.StringVar(&f.downstream, "downstream-format", "", "server-to-client `FORMAT` (default the upstream's response)")
	l.StringVar(&f.key, "key", "", "classic: shared `KEY`, 64 hexadecimal digits (default fteproxy's public one)")
	l.StringVar(&f.keyFile, "key-file", "", "classic: `FILE` with the shared key; chive: FILE with the server's keys")
	l.StringVar(&f.cert, "cert", "", "chive client: the server's `CERTIFICATE`")
	l.Var(options.Word{At: &f.wire, Of: fteWires}, "wire", "chive, the same on both sides: `MODE` strict (one endless word), cells (words of fixed length) or bulk (only the start of each record)")
	l.BoolVar(&f.pq, "pq", false, "chive client: add ML-KEM-768 to the key exchange")
	l.BoolVar(&f.chacha, "chacha", false, "chive client: ChaCha20-Poly1305 records, for machines without AES")
	l.IntVar(&f.padTo, "pad-to", 0, "chive: pad records to a multiple of this many `BYTES`")
	l.IntVar(&f.padRandom, "pad-random", 0, "chive: pad records with up to this many `BYTES`")
	l.DurationVar(&f.delay, "delay", 0, "chive: delay each record for a random `TIME` up to this")
	l.IntVar(&f.maxConns, "max-connections", fte.DefaultMaxConns, "`NUMBER` of connections carried at once")
	l.IntVar(&f.maxPending, "max-handshakes", fte.DefaultMaxPending, "server: `NUMBER` of unauthenticated connections at once")
	f.maxMemory = fte.DefaultMaxMemory
	l.Var((*sizeFlag)(&f.maxMemory), "max-memory", "server: `BYTES` that all connections together may make it hold")
	l.DurationVar(&f.handshake, "handshake-timeout", fte.DefaultHandshakeTimeout, "server: `TIME` that a connection may stay unauthenticated (to twice this)")
	l.StringVar(&f.decoy, "decoy", "", "server: `HOST:PORT` that answers unauthenticated connections")
	l.BoolVar(&f.http, "http", false, "chive: carry connections as HTTP messages; a server's decoy is an HTTP origin then")
	l.StringVar(&f.httpURL, "http-url", "", "client with --http: `URL` to send requests to (default http://server-ip:server-port/)")
	l.StringVar(&f.httpHost, "http-host", "", "client with --http: `HOST` of the Host header (default the URL's)")
	l.StringVar(&f.httpProxy, "http-proxy", "", "client with --http: `URL` of an HTTP proxy to go through (default none, whatever the environment says)")
	l.BoolVar(&f.stop, "stop", false, "refused: fteproxy's way to end a daemon; interrupt the process instead")
	l.DurationVar(&f.drain, "drain", 10*time.Second, "`TIME` that open connections may go on after an interrupt")
	l.StringVar(&f.metrics, "metrics", "", "`HOST:PORT` to serve metrics on, as Prometheus text (default nowhere)")
	l.StringArrayVar(&f.metricsHosts, "metrics-host", nil, "`NAME` of a host by which metrics may be asked for, beside localhost and IP addresses; may be repeated")
	l.BoolVar(&f.quiet, "quiet", false, "log nothing")
	if err := l.MarkHidden("stop"); err != nil {
		panic(err) // the flag is above
	}
	for name, end := range map[string]string{"upstream-format": "-request", "downstream-format": "-response"} {
		if err := cmd.RegisterFlagCompletionFunc(name, f.formatNames(end)); err != nil {
			panic(err) // the flag is above
		}
	}
	cmd.AddCommand(fteFormatsCommand(&f), fteTestCommand(&f), fteKeygenCommand())
	return cmd
}

// load returns the definitions that the flags name.
func (f *fteFlags) load() (*fte.Definitions, error) {
	if f.definitions == "" {
		return fte.Release(f.release, f.order019)
	}
	file, err := os.Open(f.definitions)
	if err != nil {
		return nil, fault.New(fault.Config, "--definitions: %w", err)
	}
	defer file.Close()
	d, err := fte.ReadDefinitions(strings.TrimSuffix(filepath.Base(f.definitions), ".json"), file, f.order019)
	if err != nil {
		return nil, fault.New(fault.Config, "--definitions: %w", err)
	}
	return d, nil
}

// formatNames completes the names of formats, with an end.
func (f *fteFlags) formatNames(end string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		defs, err := f.load()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var out []string
		for _, name := range defs.Names() {
			out = append(out, name+end)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// format returns the format's name without direction; either flag implies the other.
func (f *fteFlags) format() (string, error) {
	up, upOK := strings.CutSuffix(f.upstream, "-request")
	down, downOK := strings.CutSuffix(f.downstream, "-response")
	switch {
	case f.upstream == "" && f.downstream == "":
		return fte.DefaultFormat, nil
	case f.upstream != "" && !upOK:
		return "", fault.New(fault.Config, "--upstream-format ends in -request")
	case f.downstream != "" && !downOK:
		return "", fault.New(fault.Config, "--downstream-format ends in -response")
	case f.upstream == "":
		return down, nil
	case f.downstream != "" && up != down:
		return "", fault.New(fault.Config, "a server answers %s in %s-response: --downstream-format can't be %s", f.upstream, up, f.downstream)
	}
	return up, nil
}

// These bound a file with the shared key, which is 64 digits, and one with a server's keys, of which package fte reads no more.
const (
	maxClassicKey = 4096
	maxServerKeys = 64 << 10
)

// classicKey returns the shared key in the flags; the zero key stands for the
// default one.
func (f *fteFlags) classicKey() (k fte.Key, err error) {
	switch {
	case f.key != "" && f.keyFile != "":
		return k, fault.New(fault.Config, "give --key or --key-file, not both")
	case f.key != "":
		if k, err = fte.ParseKey(f.key); err != nil {
			return k, fault.New(fault.Config, "--key: %w", err)
		}
		return k, nil
	case f.keyFile != "":
		b, err := atomicfile.Read(f.keyFile, maxClassicKey)
		if err != nil {
			return k, fault.New(fault.Config, "--key-file: %w", err)
		}
		if k, err = fte.ParseKey(string(b)); err != nil {
			return k, fault.New(fault.Config, "--key-file: %w", err)
		}
		return k, nil
	}
	return k, nil
}

// transport builds the client or server side of the protocol in the flags.
func (f *fteFlags) transport(server bool) (fte.Transport, error) {
	defs, err := f.load()
	if err != nil {
		return nil, err
	}
	name, err := f.format()
	if err != nil {
		return nil, err
	}
	switch f.protocol {
	case "classic":
		p := fte.Classic{Definitions: defs, Format: name}
		if f.order019 {
			p.MaxCell = 1 << 15 // what 0.2.19 sends
		}
		if p.Key, err = f.classicKey(); err != nil {
			return nil, err
		}
		f.publicKey = p.Key == fte.Key{} || p.Key == fte.DefaultKey
		if server {
			return p.Acceptor()
		}
		return p.Dialer()
	case "chive":
		return f.chive(defs, name, server)
	}
	return nil, fault.New(fault.Config, "--protocol: %w", options.NotOneOf(f.protocol, fteProtocols))
}

func (f *fteFlags) chive(defs *fte.Definitions, name string, server bool) (fte.Transport, error) {
	p := fte.Protocol{Hybrid: f.pq, ChaCha: f.chacha, Shape: fte.Shape{Multiple: f.padTo, Random: f.padRandom, Delay: f.delay}}
	var err error
	if p.Request, p.Response, err = defs.Pair(name); err != nil {
		return nil, err
	}
	if p.Mode, err = fte.ParseMode(f.wire); err != nil {
		return nil, err
	}
	if !server {
		if p.Cert, err = fte.ParseCert(f.cert); err != nil {
			return nil, fault.New(fault.Config, "--cert: %w", err)
		}
		return p.Dialer()
	}
	file, err := os.Open(f.keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Config, "a chive server needs --key-file: %w; \"chive fte keygen FILE\" makes one", err)
	} else if err != nil {
		return nil, fault.New(fault.Config, "--key-file: %w", err)
	}
	defer file.Close()
	if p.Keys, err = fte.ParseServerKeys(file); err != nil {
		return nil, fault.New(fault.Config, "--key-file: %w", err)
	}
	return p.Acceptor()
}

// Printf writes to a command's output.
func Printf(cmd *cobra.Command, format string, args ...any) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), format, args...)
	return err
}
