package cli

// usable says how a command is run until it waits for something. Words in capitals stand for what
// a test makes (see place.fill).
type usable struct {
	args string
	more []waiting // what it waits for beside its options that name files and its output
	last string    // what comes after all options
	mute bool      // it writes nothing to standard output by itself
}

// waiting is something that a command waits for.
type waiting struct {
	name, args string // args: the whole command line
	says       string // it waits when it has written this; otherwise, when somebody has asked what args name
	full       int    // it waits because this output is a pipe that is full: 1 or 2, which is the log
	late       string // the reason why one signal is not enough
	code       int    // after the first signal
	refuse     bool   // it may also refuse what is no regular file
}

const (
	asClient  = "--data-dir DIR/data --network NET "
	asTor     = "-f TORRC DataDirectory DIR/data SocksPort auto "
	asRelay   = "--data-dir DIR/data --network NET --orport 127.0.0.1:0 --address 127.0.0.1:1 --assume-reachable "
	asAuth    = "--data-dir AUTH --network AUTHNET --nickname auth1 --orport 127.0.0.1:AUTHPORT --dirport 127.0.0.1:DIRPORT "
	fteServer = "--mode server --protocol chive --key-file FTEKEY --server-port 0 "
	anOnion   = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion "
	serves    = "onion serve --key-dir DIR/key 80=127.0.0.1:1 "
	balances  = "onion balance --key-dir DIR/key " + anOnion
	fetches   = "get --connect-timeout 0 http://127.0.0.1:1/ "
)

// usables has all commands: one that is not here fails TestSignals.
var usables = map[string]usable{
	"proxy": {args: asClient + "--socks 127.0.0.1:0", more: append(asClients("proxy --socks 127.0.0.1:0 ", 0),
		waiting{name: "a reader of its log", args: "proxy --socks 127.0.0.1:0 " + asClient, full: 2, late: inOrder},
		waiting{name: "nothing", args: "proxy --socks 127.0.0.1:0 " + asClient, says: "socks "},
		waiting{name: "an answer of a transport", args: "proxy --socks 127.0.0.1:0 " + asClient + "--bridge 'obfs4 127.0.0.1:1 " + aKey + "' --transport-plugin 'obfs4 exec READER'"},
	)},
	"tor": {args: asTor, more: []waiting{
		{name: "nothing", args: "tor " + asTor, says: "Opened Socks listener"},
		{name: "its torrc", args: "tor -f FIFO"},
		{name: "its torrc from standard input", args: "tor -f - --defaults-torrc FIFO"},
	}},
	"onion serve":   {args: asClient + "--key-dir DIR/key 80=127.0.0.1:1", more: append(asClients(serves, 0), waiting{name: "its key", refuse: true, args: "onion serve 80 " + asClient + "--key-dir KEYS=hs_ed25519_secret_key"})},
	"onion balance": {args: asClient + "--key-dir DIR/key " + anOnion, more: append(asClients(balances, 0), waiting{name: "its key", refuse: true, args: "onion balance " + asClient + anOnion + "--key-dir KEYS=hs_ed25519_secret_key"})},
	"relay": {args: asRelay, more: []waiting{
		{name: "a reader of its log", args: "relay " + asRelay, full: 2},
		{name: "nothing", args: "relay " + asRelay, says: "orport "},
		{name: "an authority", args: "relay " + asRelay + "--network DEAFNET"},
		{name: "its RSA key", args: "relay " + asRelay + "--data-dir KEYS=keys/secret_id_key"},
		{name: "its state", args: "relay " + asRelay + "--data-dir KEYS=bandwidth.json"},
		{name: "a transport", args: "relay " + asRelay + "--bridge --transport-plugin 'obfs4 exec READER' --transport-listen 'obfs4 127.0.0.1:0'"},
	}},
	"authority": {args: asAuth, more: []waiting{
		{name: "a reader of its log", args: "authority " + asAuth, full: 2},
		{name: "nothing", args: "authority " + asAuth, says: "ready"},
		{name: "its certificate", args: "authority " + asAuth + "--data-dir KEYS=keys/authority_certificate"},
		{name: "another authority", args: "authority " + asAuth + "--network AUTHDEAFNET"},
	}},
	"get": {args: asClient + "http://127.0.0.1:1/", mute: true, more: append(asClients(fetches, exitFailed),
		waiting{name: "the client of the data directory", args: fetches + "--network NET --data-dir INUSE", code: exitFailed},
	)},
	"status": {mute: true, more: []waiting{{name: "a program that does not answer", args: "status --data-dir INUSE", code: exitFailed}}},
	"newnym": {mute: true, more: []waiting{{name: "a program that does not answer", args: "newnym --data-dir INUSE", code: exitFailed}}},

	"config check":           {args: asClient},
	"config check onion":     {args: asClient + "--config ONIONTOML"},
	"config check relay":     {args: asRelay},
	"config check authority": {args: asAuth},
	"config import": {args: "TORRC", more: []waiting{
		{name: "the torrc", args: "config import FIFO", code: exitFailed},
		{name: "a reader of its file", args: "config import TORRC --out FIFO", says: "network file", code: exitFailed},
	}},
	"network import": {args: "TORRC", more: []waiting{{name: "the torrc", args: "network import FIFO", code: exitFailed}}},
	"network public": {},
	"version":        {},
	"keys certify":   {args: "AUTH/keys", more: []waiting{{name: "the identity key", args: "keys certify KEYS=authority_identity_key", code: exitFailed}}},
	"keys show":      {args: "AUTH/keys", more: []waiting{{name: "a certificate", args: "keys show KEYS=authority_certificate", code: exitFailed}}},
	"keys relay": {args: "DIR/mine", more: []waiting{
		{name: "the identity key", args: "keys relay KEYS=secret_id_key", code: exitFailed},
		{name: "the master key", args: "keys relay KEYS=ed25519_master_id_secret_key", code: exitFailed},
	}},
	"keys family":          {args: "DIR/family"},
	"onion key make":       {args: "DIR/key", more: []waiting{{name: "the key", refuse: true, args: "onion key make KEYS=hs_ed25519_secret_key", code: exitFailed}}},
	"onion key show":       {args: "ONION", more: []waiting{{name: "the key", refuse: true, args: "onion key show KEYS=hs_ed25519_secret_key", code: exitFailed}}},
	"onion clients add":    {args: "ONION alice", more: []waiting{{name: "the key", refuse: true, args: "onion clients add KEYS=hs_ed25519_secret_key alice", code: exitFailed}}},
	"onion clients list":   {args: "CLIENTS", more: []waiting{{name: "a client's key", refuse: true, args: "onion clients list KEYS=authorized_clients/alice.auth", code: exitFailed}}},
	"onion clients remove": {args: "CLIENTS alice", mute: true, more: []waiting{{name: "the key", refuse: true, args: "onion clients remove KEYS=hs_ed25519_secret_key alice --data-dir INUSE", code: exitFailed}}},
	"exec":                 {args: asClient, last: " -- true", mute: true, more: withProgram(asClients("exec ", exitExec))},
	"fte": {args: fteServer, mute: true, more: []waiting{
		{name: "a classic key", args: "fte --mode server --server-port 0 --key-file FIFO"},
		{name: "a reader of its log", args: "fte " + fteServer, full: 2, late: inOrder},
		{name: "nothing", args: "fte " + fteServer, says: "msg=ready"},
	}},
	"fte keygen":  {args: "DIR/keys", more: []waiting{{name: "the key", refuse: true, args: "fte keygen FIFO", code: exitFailed}}},
	"fte formats": {},
	"fte test": {args: "--bytes 1000", more: []waiting{
		{name: "its own work", args: "fte test --bytes 1000000000 --definitions FIFO=20260110.json", code: exitFailed},
	}},

	"help": {}, "completion bash": {}, "completion zsh": {}, "completion fish": {}, "completion powershell": {},
	"lab": {mute: true}, "bench": {mute: true}, // they only say where the laboratory is
}

// inOrder is why a process whose log nobody takes needs two signals.
const inOrder = "after the first one it ends in order, and logs what it does"

// ofLonely is the directory of the network "lonely" in a data directory.
const ofLonely = "lonely-7c854a55"

const aKey = "0123456789ABCDEF0123456789ABCDEF01234567"

// asClients are the waits of every command that has a client.
func asClients(command string, code int) []waiting {
	command += "--data-dir DIR/data "
	return []waiting{
		{name: "an authority", args: command + "--network DEAFNET", code: code},
		{name: "a proxy: SOCKS 5", args: command + "--network NET --proxy socks5://DEAF", code: code},
		{name: "a proxy: SOCKS 4", args: command + "--network NET --proxy socks4://DEAF", code: code},
		{name: "a proxy: HTTP", args: command + "--network NET --proxy http://DEAF", code: code},
		{name: "a proxy's password", refuse: true, args: command + "--network NET --proxy @FIFO", code: code},
		{name: "a key for a service", refuse: true, args: command + "--network NET --client-onion-auth @FIFO", code: code},
		{name: "keys for services", refuse: true, args: command + "--network NET --client-onion-auth-dir KEYS=a.auth_private", code: code},
		{name: "a bridge", args: command + "--network NET --bridge 'DEAF " + aKey + "'", code: code},
		{name: "its guards", args: command + "--network NET --data-dir KEYS=" + ofLonely + "/guards.json", code: code},
		{name: "its directory", says: "it is no regular file", args: command + "--network NET --data-dir KEYS=" + ofLonely + "/directory/certs", code: code},
	}
}

// withProgram adds a program to chive exec's arguments.
func withProgram(all []waiting) []waiting {
	for i := range all {
		all[i].args += " -- true"
		if all[i].name == "its guards" {
			all[i].code = exitFailed // the process ends, as the command does not come back
		}
	}
	return all
}

// fileOption says what else an option with a FILE needs before the file is opened.
type fileOption struct {
	with string // more arguments
	name string // the file's name
	// The reason why no command opens it before it waits for something else.
	never string
}

// fileOptions are the options, of one command or of all, whose FILE does not come at once.
var fileOptions = map[string]fileOption{
	"config check --log-file":           {never: "a check opens no log"},
	"config check onion --log-file":     {never: "a check opens no log"},
	"config check relay --log-file":     {never: "a check opens no log"},
	"config check authority --log-file": {never: "a check opens no log"},
	"config import --out":               {never: "it has a row of its own: the file is written last"},
	"fte keygen --definitions":          {never: "a key is for every format"},

	"geoip-file":     {with: "--exclude-nodes {de}"},
	"geoip6-file":    {with: "--exclude-nodes {de} --geoip-file TORRC"},
	"bandwidth-file": {never: "it is read before each vote: authority.TestBandwidthPipe"},
	"output":         {never: "there is no file before a server has answered"},
	"definitions":    {name: "20260110.json"},
	"key-file":       {with: "--mode server --protocol chive --server-port 0"},
}
