package page

import "time"

// State is all that the page shows, but for events.
type State struct {
	Kind     string    `json:"kind"` // Network or Client
	Title    string    `json:"title"`
	Time     time.Time `json:"time"`
	Nodes    []Node    `json:"nodes"`
	Links    []Link    `json:"links"`
	Circuits []Circuit `json:"circuits"`
	Facts    []Fact    `json:"facts,omitempty"` // in this order
	// CanTrace says that a cell can be followed. Emulation says that links can be changed or, of a network, why not.
	CanTrace  bool       `json:"can_trace,omitempty"`
	Emulation *Emulation `json:"emulation,omitempty"`
}

// The kinds of a State.
const (
	Network = "network"
	Client  = "client"
)

// Node is a node of the graph. Name is its identity.
type Node struct {
	Name    string `json:"name"`
	Label   string `json:"label,omitempty"` // what people read; empty: the name
	Role    string `json:"role"`
	Program string `json:"program,omitempty"`
	State   string `json:"state"`             // one of the words below
	Country string `json:"country,omitempty"` // "??": nobody knows
	Note    string `json:"note,omitempty"`
	CanEnd  bool   `json:"can_end,omitempty"`
	// Figures are nil where nobody here can read the node's counters.
	Figures *Figures `json:"figures,omitempty"`
	// Access is the node's emulated link to the network; nil: there is none.
	Access *Access `json:"access,omitempty"`
}

// The states of a Node.
const (
	Running   = "running"
	Ending    = "ending"
	Ended     = "ended"
	Elsewhere = "elsewhere" // it is no node of this process
)

// Figures are a node's counters since its start, and what it has now.
type Figures struct {
	CellsIn  uint64 `json:"cells_in"`
	CellsOut uint64 `json:"cells_out"`
	BytesIn  uint64 `json:"bytes_in"` // of cells, on links
	BytesOut uint64 `json:"bytes_out"`
	Circuits int64  `json:"circuits"`
	Links    int    `json:"links"`
	Streams  int64  `json:"streams"`
	Queued   int    `json:"queued"` // cells that wait for a link
	// Lacks names the fields that nobody here can read, as they are in JSON.
	Lacks []string `json:"lacks,omitempty"`
}

// Access is a node's emulated link, whose two directions have the same rules.
type Access struct {
	DelayMS float64 `json:"delay_ms"`
	Loss    float64 `json:"loss"` // percent
	Rate    float64 `json:"rate"` // kilobits a second; 0: no bound
	Packets uint64  `json:"packets"`
	Lost    uint64  `json:"lost"` // of these, on the way, or as the queue was full
}

// Emulation is about the links of a network.
type Emulation struct {
	On   bool   `json:"on"`
	Note string `json:"note"` // why not, or whether the emulator was late
}

// Link joins two nodes. Its counters are those of A's end.
type Link struct {
	A        string `json:"a"`
	B        string `json:"b"`
	Measured bool   `json:"measured"` // the counters say something
	BytesIn  uint64 `json:"bytes_in"` // from B to A, since the link was opened
	BytesOut uint64 `json:"bytes_out"`
	Queued   int    `json:"queued"` // cells that wait at A
}

// Circuit is an open circuit of a client.
type Circuit struct {
	ID      uint64 `json:"id"` // unique within the client
	Client  string `json:"client"`
	Hops    []Hop  `json:"hops"`
	Streams int    `json:"streams"` // open ones
	Read    uint64 `json:"read"`    // bytes that these have delivered
	Written uint64 `json:"written"` // bytes that these have taken
}

// Hop is a hop of a circuit, and what protects it.
type Hop struct {
	Node      string `json:"node"`
	Label     string `json:"label,omitempty"`
	Country   string `json:"country,omitempty"`
	Handshake string `json:"handshake,omitempty"`
	PQ        string `json:"pq,omitempty"`
	Carriage  string `json:"carriage,omitempty"`
	Layer     string `json:"layer,omitempty"`
}

// Fact is a line for people.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Event is something that happened, which no State shows: circuits while they are built, and ends.
type Event struct {
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"` // "circuit" or "stream"
	Client string    `json:"client"`
	ID     uint64    `json:"id"`
	State  string    `json:"state"`
	// Of a circuit.
	Purpose string `json:"purpose,omitempty"`
	Hops    int    `json:"hops,omitempty"`    // finished so far
	TookMS  int64  `json:"took_ms,omitempty"` // until the last of these was finished
	// Of a stream.
	Circuit uint64 `json:"circuit,omitempty"`
}
