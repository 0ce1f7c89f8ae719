package tord

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
)

// HasDirectory implements control.Engine.
func (t *tor) HasDirectory(id ident.RSAID) bool {
	_, node := t.plan()
	return node != nil && node.Onions().HasDirectory(id)
}

// FetchDescriptor implements control.Engine.
func (t *tor) FetchDescriptor(address string, from []ident.RSAID) error {
	_, node := t.plan()
	if node == nil {
		return errOffline()
	}
	return node.Onions().FetchDescriptor(identity(address), from)
}

// PostDescriptor implements control.Engine.
func (t *tor) PostDescriptor(address string, text []byte, to []ident.RSAID) error {
	_, node := t.plan()
	if node == nil {
		return errOffline()
	}
	return node.Onions().PostDescriptor(identity(address), text, to)
}

func errOffline() error {
	return ctlwire.Errorf(ctlwire.Failed, "there is no network: DisableNetwork is 1")
}

// fetched answers hs/client/desc/id/ADDRESS.
func (q *query) fetched() (control.Answer, error) {
	return q.descriptor(func(id ident.Ed25519ID) []byte { return q.node.Onions().Fetched(id) })
}

// served answers hs/service/desc/id/ADDRESS.
func (q *query) served() (control.Answer, error) {
	return q.descriptor(func(id ident.Ed25519ID) []byte { return q.node.Onions().Served(id) })
}

func (q *query) descriptor(of func(ident.Ed25519ID) []byte) (control.Answer, error) {
	if !control.IsAddress(q.rest) {
		return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, "Invalid address")
	}
	if q.node != nil {
		if b := of(identity(q.rest)); b != nil {
			return listed(func() string { return string(b) })
		}
	}
	return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, "Not found in cache")
}

// tellOnion tells controllers of what happens to a descriptor. It waits for nothing: a service calls it.
func (t *tor) tellOnion(e netdir.HSEvent) {
	if t.server.Wanted("HS_DESC") {
		t.tell("HS_DESC", onionEvent(&e))
	}
	if e.Action != netdir.HSReceived && !(e.Action == netdir.HSFailed && e.Fetch) || e.Dir.IsZero() || !t.server.Wanted("HS_DESC_CONTENT") {
		return
	}
	text := fmt.Sprintf("%s %s %s", onionName(e.Service), keyName(e.Blinded), directoryName(e.Dir))
	if err := t.server.EventData("HS_DESC_CONTENT", text, e.Text); err != nil {
		// A directory chose it, and it has a NUL: it is no descriptor.
		t.log.Info("an event was not sent", "event", "HS_DESC_CONTENT", "err", err)
	}
}

// onionEvent returns the text of an HS_DESC event (control-spec).
func onionEvent(e *netdir.HSEvent) string {
	word := map[netdir.HSAction]string{netdir.HSCreated: "CREATED", netdir.HSUpload: "UPLOAD", netdir.HSUploaded: "UPLOADED",
		netdir.HSRequested: "REQUESTED", netdir.HSReceived: "RECEIVED", netdir.HSFailed: "FAILED"}[e.Action]
	auth := "UNKNOWN" // of what a service does, as in C tor
	if e.Action == netdir.HSRequested || e.Action == netdir.HSReceived || e.Fetch {
		auth = "NO_AUTH"
	}
	out := []string{word, onionName(e.Service), auth, directoryName(e.Dir)}
	if upload := e.Action == netdir.HSUploaded || e.Action == netdir.HSFailed && !e.Fetch; !upload && !e.Blinded.IsZero() {
		out = append(out, keyName(e.Blinded))
	}
	if e.Action == netdir.HSUpload || e.Action == netdir.HSRequested {
		out = append(out, fmt.Sprintf("HSDIR_INDEX=%X", e.Index))
	}
	if e.Action == netdir.HSFailed {
		out = append(out, "REASON="+e.Reason)
	}
	return strings.Join(out, " ")
}

func onionName(id ident.Ed25519ID) string { return strings.TrimSuffix(hscrypto.Address(id), ".onion") }

func keyName(id ident.Ed25519ID) string { return base64.RawStdEncoding.EncodeToString(id[:]) }

func directoryName(r netdir.Relay) string {
	if r.IsZero() {
		return "UNKNOWN"
	}
	return router(client.Router{ID: r.RSA(), Name: r.Nickname()})
}
