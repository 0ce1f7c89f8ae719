package hsservice

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/stream"
)

const (
	// dirTimeout bounds one upload or fetch, with its circuit.
	dirTimeout = 40 * time.Second
	// maxHead bounds the head of an answer, in bytes.
	maxHead = 16 << 10
)

// store is where descriptors are kept: the network's directories.
type store interface {
	// upload gives a descriptor to a directory. refused says that the directory wants
	// another one.
	upload(ctx context.Context, dir netdir.Relay, doc []byte) (refused bool, err error)
	// fetch asks a directory for the descriptor of a blinded key; nil if it has none.
	fetch(ctx context.Context, dir netdir.Relay, blinded ident.Ed25519ID) (*netdoc.HSDescriptor, error)
}

var errDirTimeout = fault.New(fault.Timeout, "the directory did not answer in time")

// ask sends one request to a directory, over a circuit of its own that ends there,
// and returns the answer (rend-spec-v3, "Uploading descriptors", "Fetching").
func (s *Service) ask(ctx context.Context, dir netdir.Relay, request []byte) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dirTimeout, errDirTimeout)
	defer cancel()
	c, _, err := s.cfg.Network.ToDirectory(ctx, dir.Target())
	if err != nil {
		return 0, nil, err
	}
	return s.askOver(ctx, c, request)
}

// askOnce is ask for what will not be asked again: circuits are tried for longer.
func (s *Service) askOnce(ctx context.Context, dir netdir.Relay, request []byte) (status int, body []byte, err error) {
	c, err := s.reachDirectory(ctx, dir)
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, dirTimeout, errDirTimeout)
	defer cancel()
	return s.askOver(ctx, c, request)
}

// askOver sends a request over a circuit, which it closes.
func (s *Service) askOver(ctx context.Context, c *circuit.Circuit, request []byte) (status int, body []byte, err error) {
	answered := false
	defer func() {
		if answered && s.cfg.Rest != nil {
			s.cfg.Rest(c, func() { closeCircuit(c) })
			return
		}
		closeCircuit(c)
	}()
	st, err := stream.BeginDir(c.Last())
	if err != nil {
		return 0, nil, err
	}
	defer st.Close()
	deadline, _ := ctx.Deadline()
	_ = st.SetDeadline(deadline) // never fails
	defer context.AfterFunc(ctx, panics.Contain(s.log, nil, func() { closeCircuit(c) }))()
	if _, err := st.Write(request); err != nil {
		return 0, nil, fault.New(fault.Network, "onion service's directory: %w", err)
	}
	status, body, err = readAnswer(st)
	answered = err == nil
	return status, body, err
}

func readAnswer(r io.Reader) (status int, body []byte, err error) {
	r = io.LimitReader(r, maxHead+netdoc.MaxHSDescriptor)
	res, err := http.ReadResponse(bufio.NewReader(r), nil)
	if err != nil {
		return 0, nil, fault.New(fault.Network, "onion service's directory: its answer cannot be read: %w", err)
	}
	defer res.Body.Close()
	if body, err = io.ReadAll(res.Body); err != nil {
		return 0, nil, fault.New(fault.Network, "onion service's directory: its answer is incomplete: %w", err)
	}
	return res.StatusCode, body, nil
}

// upload implements store.
func (s *Service) upload(ctx context.Context, dir netdir.Relay, doc []byte) (refused bool, err error) {
	request := append(dirclient.Anonymous("POST", "/tor/hs/3/publish", dir.IPv4(), fmt.Sprint("Content-Length: ", len(doc))), doc...)
	ask := s.ask
	if s.uploadOnce() {
		ask = s.askOnce
	}
	status, _, err := ask(ctx, dir, request)
	if err == nil && status != http.StatusOK {
		err = fault.New(fault.Refused, "onion service's directory: it answers an upload with status %d", status)
	}
	return status == http.StatusBadRequest || status == http.StatusConflict, err
}

// fetch implements store.
func (s *Service) fetch(ctx context.Context, dir netdir.Relay, blinded ident.Ed25519ID) (*netdoc.HSDescriptor, error) {
	request := dirclient.Anonymous("GET", "/tor/hs/3/"+base64.RawStdEncoding.EncodeToString(blinded[:]), dir.IPv4())
	status, body, err := s.ask(ctx, dir, request)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound:
		return nil, nil
	case status != http.StatusOK:
		return nil, fault.New(fault.Network, "onion service's directory: it answers a request with status %d", status)
	}
	d, err := netdoc.ParseHSDescriptor(body, time.Now())
	if err != nil {
		return nil, err
	}
	if d.Blinded != blinded {
		return nil, fault.New(fault.Directory, "onion service's directory: it sends another service's descriptor")
	}
	return d, nil
}

// newest asks directories, in a random order, until one has a descriptor that is as new
// as the known one; if none is known, the better of two. One directory alone could keep
// a descriptor back.
func (s *Service) newest(dirs []netdir.Relay, blinded ident.Ed25519ID, known uint64) (best *netdoc.HSDescriptor, none int, err error) {
	ctx, cancel := context.WithTimeoutCause(s.ctx, 2*dirTimeout, errDirTimeout)
	defer cancel()
	n := 0
	for _, i := range shuffled(len(dirs), lookTries) {
		got, ferr := s.store.fetch(ctx, dirs[i], blinded)
		if ferr != nil {
			err = ferr
			continue
		}
		if got == nil {
			none++
			continue
		}
		if n++; best == nil || got.Revision > best.Revision {
			best = got
		}
		if known > 0 && best.Revision >= known || known == 0 && n == 2 {
			break
		}
	}
	return best, none, err
}

// shuffled returns at most so many of the numbers below n, in a random order.
func shuffled(n, most int) []int {
	out := make([]int, n)
	for i := range out {
		j := int(random(int64(i + 1)))
		out[i], out[j] = out[j], i
	}
	return out[:min(n, most)]
}
