package interop

import (
	"log/slog"
	"testing"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
)

// TestControlOnion: stem has chive as tor serve onions, of which a C tor client fetches a page, and the other way
// round; keys of clients and of services go from one program to the other; services end with their controller.
func TestControlOnion(t *testing.T) {
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	python := stemPython(t)
	nw, err := ctor.Start(bounded(t, patience), ctor.Options{Relays: 6, Exits: 2, Clients: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	peer := nw.Node("client0")
	runPython(t, python, stemOnions, torProgram(t), t.TempDir(), nw.Torrc(), peer.SOCKS.String(), peer.ControlAddr.String())
}

// stemOnions serves pages to the other program.
const stemOnions = `
import base64, http.client, http.server, os, socket, struct, subprocess, sys, threading, time
import stem, stem.control
tor, dir, torrc, peer_socks, peer_control = sys.argv[1:]
keep = ("DirAuthority", "TestingTorNetwork", "EnforceDistinctSubnets", "SafeLogging", "ProtocolWarnings", "TestingEnable")
text = "DataDirectory %s/data\nSocksPort auto\nControlSocket %s/s\nClientOnionAuthDir %s/auth\n" % (dir, dir, dir)
text += "".join(line + "\n" for line in torrc.splitlines() if line.startswith(keep))
os.mkdir(dir + "/auth", 0o700)
p = subprocess.Popen([tor, "-f", "-", "__OwningControllerProcess", str(os.getpid())], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
p.stdin.write(text.encode())
p.stdin.close()
lines = []
for line in p.stdout:
    lines.append(line.decode())
    if "Bootstrapped 100%" in lines[-1]:
        break
else:
    raise AssertionError("".join(lines))
threading.Thread(target=lambda: p.stdout.read(), daemon=True).start()

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the page")
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
port = server.server_address[1]

def page(socks, address, timeout=100):
    host, to = socks.rsplit(":", 1)
    end = time.time() + timeout
    while True:
        try:
            s = socket.create_connection((host, int(to)), timeout=60)
            s.sendall(b"\x05\x01\x00")
            assert s.recv(2) == b"\x05\x00"
            name = (address + ".onion").encode()
            s.sendall(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + struct.pack(">H", 80))
            answer = b""
            while len(answer) < 10:
                more = s.recv(10 - len(answer))
                if not more:
                    raise OSError("it ended")
                answer += more
            if answer[1] != 0:
                raise OSError("SOCKS says %d" % answer[1])
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            got = b""
            while True:
                more = s.recv(4096)
                if not more:
                    break
                got += more
            assert got.endswith(b"the page"), got
            return
        except OSError:
            if time.time() > end:
                raise

def until(what, cond):
    end = time.time() + 100
    while not cond():
        if time.time() > end:
            raise AssertionError("waited in vain for " + what)
        time.sleep(0.05)

def fails(kind, what, *args, **kw):
    try:
        what(*args, **kw)
    except kind:
        return
    raise AssertionError("%s %s %s did not fail" % (what, args, kw))

def control():
    c = stem.control.Controller.from_socket_file(dir + "/s")
    c.authenticate()
    c.set_caching(False)
    return c

peer_host, peer_port = peer_control.rsplit(":", 1)
peer = stem.control.Controller.from_port(peer_host, int(peer_port))
peer.authenticate()
c = control()
(host, socks), = c.get_listeners(stem.control.Listener.SOCKS)
own_socks = "%s:%d" % (host, socks)

# A service with a new key, which stem waits for.
events, contents = [], []
c.add_event_listener(events.append, stem.control.EventType.HS_DESC)
c.add_event_listener(contents.append, stem.control.EventType.HS_DESC_CONTENT)
s = c.create_ephemeral_hidden_service({80: port}, await_publication=True, timeout=100)
assert c.list_ephemeral_hidden_services() == [s.service_id]
assert s.private_key_type == "ED25519-V3" and len(base64.b64decode(s.private_key)) == 64
page(peer_socks, s.service_id)
kinds = [e.action for e in events if e.address == s.service_id]
assert kinds.index("CREATED") < kinds.index("UPLOAD") < kinds.index("UPLOADED"), kinds
upload = next(e for e in events if e.action == "UPLOAD")
assert len(upload.directory_fingerprint) == 40 and upload.directory_nickname and len(base64.b64decode(upload.descriptor_id + "=")) == 32, str(upload)
until("a descriptor", lambda: "hs-descriptor 3" in c.get_info("hs/service/desc/id/" + s.service_id, ""))

# The program's own client fetches it, for a command and for a stream.
desc = c.get_hidden_service_descriptor(s.service_id)
assert "hs-descriptor 3" in str(desc)
until("the descriptor", lambda: "hs-descriptor 3" in c.get_info("hs/client/desc/id/" + s.service_id, ""))
page(own_socks, s.service_id)
server_of = next(e for e in events if e.action == "RECEIVED").directory_fingerprint
before = len(contents)
c.msg("HSFETCH %s SERVER=%s" % (s.service_id, server_of))
until("the descriptor of one directory", lambda: len(contents) > before)
for action in ("REQUESTED", "RECEIVED"):
    e = next(e for e in events if e.action == action)
    assert e.address == s.service_id and e.authentication == "NO_AUTH", str(e)
missing = "ug3ybszu5xm4qcmyxjk5vq6273og3pt77gjptn4d347hqehp74rksiqd"
fails(stem.DescriptorUnavailable, c.get_hidden_service_descriptor, missing)
until("its failure", lambda: any(e.action == "FAILED" and e.address == missing and e.reason == "NOT_FOUND" for e in events))

# A descriptor goes to directories by hand.
before = len(events)
text = c.get_info("hs/service/desc/id/" + s.service_id)
assert c.msg("HSPOST HSADDRESS=%s SERVER=%s\n%s" % (s.service_id, server_of, text)).is_ok()
until("the upload", lambda: any(e.action in ("UPLOADED", "FAILED") and e.directory_fingerprint == server_of for e in events[before:]))
assert not c.msg("HSPOST HSADDRESS=%s\n%s" % (s.service_id, text.replace("A", "B"))).is_ok()

# Its key goes to C tor, and back.
assert c.remove_ephemeral_hidden_service(s.service_id)
assert c.list_ephemeral_hidden_services() == []
assert c.get_info("hs/service/desc/id/" + s.service_id, None) is None
moved = peer.create_ephemeral_hidden_service({80: port}, key_type=s.private_key_type, key_content=s.private_key, await_publication=True, timeout=100)
assert moved.service_id == s.service_id
c.signal("NEWNYM")
page(own_socks, s.service_id)
peer.remove_ephemeral_hidden_service(s.service_id)
made = peer.create_ephemeral_hidden_service({80: port})
peer.remove_ephemeral_hidden_service(made.service_id)
back = c.create_ephemeral_hidden_service({80: port}, key_type=made.private_key_type, key_content=made.private_key, await_publication=True, timeout=100)
assert back.service_id == made.service_id and back.private_key is None
page(peer_socks, back.service_id)
fails(stem.ProtocolError, c.create_ephemeral_hidden_service, {80: port}, key_type=made.private_key_type, key_content=made.private_key)

# Only clients with a key come in: C tor's with Chive's service, and the other way round.
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
secret = X25519PrivateKey.generate()
private = base64.b64encode(secret.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())).decode()
public = base64.b32encode(secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode().rstrip("=")
for service, client, client_socks in ((c, peer, peer_socks), (peer, c, own_socks)):
    a = service.create_ephemeral_hidden_service({80: port}, client_auth_v3=public, await_publication=True, timeout=100)
    fails(OSError, page, client_socks, a.service_id, 0)
    ask = lambda text: str(client.msg(text))
    add = "ONION_CLIENT_AUTH_ADD %s x25519:%s" % (a.service_id, private)
    assert client.msg(add).content()[0][0] in ("250", "252")
    page(client_socks, a.service_id)
    assert "CLIENT %s x25519:%s" % (a.service_id, private) in ask("ONION_CLIENT_AUTH_VIEW"), ask("ONION_CLIENT_AUTH_VIEW")
    assert ask("ONION_CLIENT_AUTH_REMOVE " + a.service_id) == "OK"
    if client is c: # C tor's has no directory for keys
        assert ask(add + " Flags=Permanent") == "OK"
        with open(dir + "/auth/" + a.service_id + ".auth_private") as f:
            assert f.read().startswith(a.service_id + ":descriptor:x25519:")
        assert "Flags=Permanent" in ask("ONION_CLIENT_AUTH_VIEW " + a.service_id)
        page(client_socks, a.service_id)
        assert "replaced" in ask(add + " Flags=Permanent")
        assert ask("ONION_CLIENT_AUTH_REMOVE " + a.service_id) == "OK"
        assert os.listdir(dir + "/auth") == []
        assert "No credentials" in ask("ONION_CLIENT_AUTH_REMOVE " + a.service_id)
    service.remove_ephemeral_hidden_service(a.service_id)

# A service outlives its controller if it is detached, and the client's new options; others end.
other = control()
kept = other.create_ephemeral_hidden_service({80: port}, detached=True, await_publication=True, timeout=100)
lost = other.create_ephemeral_hidden_service({80: port}, discard_key=True)
assert lost.private_key is None
other.close()
until("the end", lambda: c.get_info("hs/service/desc/id/" + lost.service_id, None) is None and kept.service_id in c.list_ephemeral_hidden_services(detached=True, our_services=False))
page(peer_socks, kept.service_id)
seen = len(events)
c.set_conf("NumEntryGuards", "2")
until("the new client's descriptor", lambda: any(e.action == "UPLOADED" and e.address == kept.service_id for e in events[seen:]))
peer.signal("NEWNYM")
page(peer_socks, kept.service_id)
assert c.remove_ephemeral_hidden_service(kept.service_id)
assert not c.remove_ephemeral_hidden_service(kept.service_id)

# A service of the configuration moves to C tor and back in its directory.
place = dir + "/hs"
until_uploaded = lambda seen, address: until("an upload", lambda: any(e.action == "UPLOADED" and e.address == address for e in events[seen:]))
addresses = set()
for program, other in ((c, peer), (peer, c), (c, peer)):
    seen = len(events)
    program.set_options([("HiddenServiceDir", place), ("HiddenServicePort", "80 127.0.0.1:%d" % port)])
    with open(place + "/hostname") as f:
        address = f.read().strip()[:-len(".onion")]
    addresses.add(address)
    assert "HiddenServiceDir=" + place in str(program.msg("GETCONF HiddenServiceOptions").raw_content())
    if program is c:
        until_uploaded(seen, address)
        (host, socks), = c.get_listeners(stem.control.Listener.SOCKS)
        own_socks = "%s:%d" % (host, socks)
    other.signal("NEWNYM")
    page(peer_socks if other is peer else own_socks, address)
    program.reset_conf("HiddenServiceDir")
assert len(addresses) == 1
assert {"hostname", "hs_ed25519_public_key", "hs_ed25519_secret_key"} <= set(os.listdir(place)), os.listdir(place)
c.signal("HALT")
assert p.wait(30) == 0
`
