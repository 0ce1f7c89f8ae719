package dirserver

import (
	"cmp"
	"container/heap"
	"net/netip"
)

// hsUploaderShare is the number of shares that the room for descriptors has. The relays by which services upload are last on
// circuits that strangers chose. The largest carries a hundredth of all, so that one with more than a share has
// somebody behind it who fills this directory on purpose, or there are few relays.
const hsUploaderShare = 64

// hsOrder says which descriptor makes room: of the address by which most came, if it has more than a share. If none has,
// of all. First come descriptors that were downloaded least, and of those the oldest.
type hsOrder struct {
	all       places[*hsDesc]
	uploaders places[*hsUploader] // the heaviest first
	of        map[netip.Prefix]*hsUploader
}

// hsUploader is an address by which descriptors came.
type hsUploader struct {
	key   netip.Prefix
	bytes int64
	descs places[*hsDesc]
	at    int // among the uploaders
}

// hsPlaces is where a descriptor is in the order.
type hsPlaces struct {
	uploader        *hsUploader
	atAll, atUpload int
}

func newHSOrder() hsOrder {
	return hsOrder{
		all: places[*hsDesc]{less: hsFirst, moved: func(e *hsDesc, i int) { e.places.atAll = i }},
		uploaders: places[*hsUploader]{
			less:  func(a, b *hsUploader) bool { return a.bytes > b.bytes },
			moved: func(u *hsUploader, i int) { u.at = i },
		},
		of: map[netip.Prefix]*hsUploader{},
	}
}

func hsFirst(a, b *hsDesc) bool {
	return cmp.Or(cmp.Compare(a.downloads, b.downloads), cmp.Compare(a.number, b.number)) < 0
}

func (o *hsOrder) add(e *hsDesc, from netip.Prefix) {
	u := o.of[from]
	if u == nil {
		u = &hsUploader{key: from, descs: places[*hsDesc]{less: hsFirst, moved: func(e *hsDesc, i int) { e.places.atUpload = i }}}
		o.of[from] = u
		heap.Push(&o.uploaders, u)
	}
	e.places.uploader = u
	heap.Push(&o.all, e)
	heap.Push(&u.descs, e)
	u.bytes += int64(e.size())
	heap.Fix(&o.uploaders, u.at)
}

func (o *hsOrder) remove(e *hsDesc) {
	u := e.places.uploader
	heap.Remove(&o.all, e.places.atAll)
	heap.Remove(&u.descs, e.places.atUpload)
	u.bytes -= int64(e.size())
	if u.descs.Len() > 0 {
		heap.Fix(&o.uploaders, u.at)
		return
	}
	heap.Remove(&o.uploaders, u.at)
	delete(o.of, u.key)
}

// downloaded is told that a descriptor was downloaded once more.
func (o *hsOrder) downloaded(e *hsDesc) {
	heap.Fix(&o.all, e.places.atAll)
	heap.Fix(&e.places.uploader.descs, e.places.atUpload)
}

// first returns the descriptor that goes first; there is one.
func (o *hsOrder) first(share int64) *hsDesc {
	if u := o.uploaders.items[0]; u.bytes > share {
		return u.descs.items[0]
	}
	return o.all.items[0]
}

// places is a heap.Interface whose items know where they are.
type places[T any] struct {
	items []T
	less  func(a, b T) bool
	moved func(item T, i int)
}

// Len implements heap.Interface.
func (p *places[T]) Len() int { return len(p.items) }

// Less implements heap.Interface.
func (p *places[T]) Less(i, j int) bool { return p.less(p.items[i], p.items[j]) }

// Swap implements heap.Interface.
func (p *places[T]) Swap(i, j int) {
	p.items[i], p.items[j] = p.items[j], p.items[i]
	p.moved(p.items[i], i)
	p.moved(p.items[j], j)
}

// Push implements heap.Interface.
func (p *places[T]) Push(x any) {
	p.moved(x.(T), len(p.items))
	p.items = append(p.items, x.(T))
}

// Pop implements heap.Interface.
func (p *places[T]) Pop() any {
	n := len(p.items) - 1
	var none, last T
	last, p.items[n] = p.items[n], none
	p.items = p.items[:n]
	return last
}
