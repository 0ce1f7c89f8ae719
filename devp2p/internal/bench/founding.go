package bench

// told is what the report that this one answers says of a thing, in its own words and
// units: over a plain connection, and with a Tor daemon.
type told struct{ clear, tor string }

// founding has the figures of "Tor Integration Performance Benchmarks", version 1.0, of
// 2025-11-09, by table, case and measure. Its runs with a simulated proxy are left out:
// they say nothing about Tor.
var founding = map[string]map[subject]told{
	tableConnection: {
		{caseFirst, stageAll, unitMS}:     {"", "3,000 to 5,000"},
		{caseLater, stageAll, unitMS}:     {"82; 127; 119; 165; 187; 198", "782; 1,523; 1,312; 2,456; 3,201; 3,847"},
		{caseLater, stageConnect, unitMS}: {"20 to 50", "760 to 4,030 (proxy, circuit, introduction, stream)"},
		{caseLater, stageRLPx, unitMS}:    {"30 to 80", "100 to 300"},
		{caseLater, stageHello, unitMS}:   {"20 to 50 (hello and status)", "50 to 150 (hello and status)"},
	},
	tableThroughput: {{"", "download", unitRate}: {"156; 198; 195; ; ; 234", "1.2; 4.3; 3.9; ; ; 8.7"}},
	tablePing:       {{"", "round trip", unitMS}: {"1.2; 2.7; 2.4; 4.9; 7.1; 8.3", "87; 182; 156; 298; 367; 412"}},
	tablePeers: {
		{"10 peers, idle", "memory", unitMB}:              {"12", "24"},
		{"50 peers, idle", "memory", unitMB}:              {"58", "118"},
		{"100 peers, idle", "memory", unitMB}:             {"115", "234"},
		{"200 peers, idle", "memory", unitMB}:             {"228", "465"},
		{"10 peers, idle", "processor", unitShare}:        {"2", "5"},
		{"50 peers, idle", "processor", unitShare}:        {"8", "22"},
		{"100 peers, idle", "processor", unitShare}:       {"16", "43"},
		{"200 peers, idle", "processor", unitShare}:       {"31", "84"},
		{"10 peers, idle", "memory of tor alone", unitMB}: {"", "80 to 150, for any number"},
	},
	tableShares: {
		{"10 peers", "answer under traffic", unitMS}:   {"", "about 300"},
		{"100 peers", "answer under traffic", unitMS}:  {"", "about 320"},
		{"200 peers", "answer under traffic", unitMS}:  {"", "about 340"},
		{"10 peers", "download, each peer", unitRate}:  {"", "about 4"},
		{"100 peers", "download, each peer", unitRate}: {"", "about 0.4"},
		{"200 peers", "download, each peer", unitRate}: {"", "about 0.2"},
	},
	tableLoad: {
		{"load of 10 %", "round trip", unitMS}:          {"", "300 to 500"},
		{"load of 50 %", "round trip", unitMS}:          {"", "500 to 800"},
		{"load of 90 %", "round trip", unitMS}:          {"", "800 to 1,500"},
		{"load of 10 %", "download of 1 MiB", unitRate}: {"", "3 to 8"},
		{"load of 50 %", "download of 1 MiB", unitRate}: {"", "2 to 5"},
		{"load of 90 %", "download of 1 MiB", unitRate}: {"", "0.5 to 2"},
	},
}

// comparable says of each table what of its figures can be compared with that report's.
var comparable = map[string]string{
	tableConnection: "The stages are the same, and the clearnet columns can be compared as far as machines can. That report gives 20 to 50 ms to a TCP handshake in a network of less than 1 ms; a handshake is one round trip, so something else is in its figures. Its Tor figures are of the public network, with relays across the world; these are of relays on one machine. They say what the programs cost, and not what a user waits.",
	tableThroughput: "Its clearnet figures are of the same thing (RLPx over loopback). Its Tor figures are bounded by public relays; these by the processors of one machine, which runs the client, the node and all relays.",
	tablePing:       "Its clearnet figures are of loopback, as these. Its Tor figures are mostly the distance between relays. The table of slow links is nearer to what a user sees.",
	tablePeers:      "The numbers of peers are the same. That report does not say whether its peers were idle, nor what they did; its figures stand beside the idle ones. It counts the Tor daemon apart and these figures count it in. It gives a node with 10 peers 12 MB, less than this one has with none, so its figures may be the growth alone.",
	tableShares:     "The ratio between numbers of peers can be compared, the figures cannot. That report gives 10 peers 4 MB/s each, ten times what it measured as the whole throughput (4.3 MB/s), so its figures do not agree with each other. It does not say how latency was measured.",
	tableLoad:       "Only the direction can be compared. That report does not say how it knew, or made, a load of the public network.",
	tableCircuits:   "That report has no figures: it expects 50 to 80 % less time for a connection whose circuit was built before, and two to three times less for several over one circuit, and says that neither is implemented.",
	tablePolicies:   "That report has no figures: it expects prefer-onion to be three to five times as quick as only-onion because of the way around by addresses, and five to ten times the performance of hybrid by class. A way around is quicker only where the onion fails, so the first is not what happens here.",
	tableLinks:      "That report has no such table. A round trip through an onion takes twice the delay between the ends, and what the relays add.",
}
