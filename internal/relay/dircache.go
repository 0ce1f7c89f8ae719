package relay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"math"
	"time"

	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// dirCache has the directory documents that a relay serves to clients: the
// microdescriptor consensus, the authorities' certificates and the
// microdescriptors, all verified by its own directory client; its own descriptor,
// which a bridge's clients need; and the documents that its mirror has fetched.
type dirCache struct {
	docs   dirserver.Memory
	server *dirserver.Server
	onions *dirserver.HSDir
	log    *slog.Logger
	dir    func() *netdir.Directory
	own    func() *netdoc.RouterDesc // nil before the first was made
}

func newDirCache(cfg dirserver.Config, dir func() *netdir.Directory, own func() *netdoc.RouterDesc) *dirCache {
	c := &dirCache{log: cfg.Log, dir: dir, own: own}
	c.onions = dirserver.NewHSDir(dirserver.HSDirConfig{Now: time.Now, Memory: cfg.Memory, MaxBytes: func() int64 { return cfg.Memory.Bound() / hsShare }})
	cfg.Docs, cfg.Extra, cfg.MaxUpload = &c.docs, c.extra, c.maxUpload
	c.server = dirserver.New(cfg)
	return c
}

// earlierFolder has the consensuses of the last days, in the data directory.
const earlierFolder = "earlier-consensuses"

// hsShare is which part of all memory onion services' descriptors may fill: the third of 512 MB has room for
// 4,700 descriptors of 30 kB.
const hsShare = 3

// maxUpload implements dirserver.Config's: only onion services upload to a relay.
func (c *dirCache) maxUpload(path string) int {
	if path != dirserver.HSPublishPath {
		return 0
	}
	d := c.dir()
	if d == nil {
		return netdoc.MaxHSDescriptor
	}
	return int(d.Param("HSV3MaxDescriptorSize", netdoc.MaxHSDescriptor, 1, math.MaxInt32))
}

// extra answers what not every directory server does.
func (c *dirCache) extra(ctx context.Context, peer dirserver.Peer, r *dirserver.Request) *dirserver.Response {
	if res := c.onions.Handle(ctx, peer, r); res != nil {
		return res
	}
	return c.ownDescriptor(ctx, peer, r)
}

// ownDescriptor answers the request for the relay's own descriptor (dir-spec,
// "/tor/server/authority").
func (c *dirCache) ownDescriptor(_ context.Context, _ dirserver.Peer, r *dirserver.Request) *dirserver.Response {
	if r.Method != "GET" || r.Path != "/tor/server/authority" {
		return nil
	}
	if d := c.own(); d != nil {
		return dirserver.OK(d.Text, 0)
	}
	return dirserver.Short(404, "Not found")
}

// KeepConsensus implements dirclient.Keeper. It drops the microdescriptors that
// neither this consensus nor the one before names.
func (c *dirCache) KeepConsensus(text []byte) {
	doc, err := dirserver.NewConsensus(bytes.Clone(text))
	if err != nil {
		c.log.Warn("directory: the consensus cannot be served", "err", err)
		return
	}
	c.current(doc)
	d := c.dir()
	if d == nil {
		return
	}
	named := make(map[[32]byte]bool, d.Len())
	for r := range d.All() {
		named[r.MicrodescDigest()] = true
	}
	c.docs.KeepMicrodescs(func(digest [32]byte) bool { return named[digest] })
}

// current makes a consensus the one that is served, and keeps it for diffs.
func (c *dirCache) current(doc *dirserver.Consensus) {
	c.docs.SetConsensus(doc)
	if err := c.docs.Keep(doc); err != nil {
		c.log.Warn("directory: the consensus is not kept for later diffs", "err", err)
	}
}

// KeepCerts implements dirclient.Keeper.
func (c *dirCache) KeepCerts(certs []*netdoc.AuthCert) { c.docs.SetCerts(certs) }

// KeepMicrodesc implements dirclient.Keeper.
func (c *dirCache) KeepMicrodesc(text []byte) {
	if err := c.docs.AddMicrodesc(sha256.Sum256(text), text); err != nil {
		c.log.Warn("directory: a microdescriptor cannot be served", "err", err)
	}
}
