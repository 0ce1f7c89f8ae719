"""txtorcon launches tor, connects, reads its state and configuration, builds a circuit, and serves and fetches an onion."""
import sys
from twisted.internet import defer, endpoints, protocol, reactor, task
from twisted.web import resource, server
import txtorcon

tor_binary, torrc, target, directory = sys.argv[1:]

class Page(resource.Resource):
    isLeaf = True
    def render_GET(self, request):
        return b"by txtorcon"

class Get(protocol.Protocol):
    def __init__(self, text):
        self.text, self.got, self.done = text, b"", defer.Deferred()
    def connectionMade(self):
        self.transport.write(self.text)
    def dataReceived(self, data):
        self.got += data
    def connectionLost(self, reason):
        self.done.callback(self.got)

@defer.inlineCallbacks
def page(tor, host, port, path):
    for attempt in range(30):
        try:
            ep = tor.stream_via(host, port)
            p = yield ep.connect(protocol.Factory.forProtocol(lambda: Get(b"GET %s HTTP/1.0\r\nHost: x\r\n\r\n" % path)))
        except Exception as e:
            print("again:", e)
            yield task.deferLater(reactor, 1, lambda: None)
            continue
        got = yield p.done
        defer.returnValue(got.split(b"\r\n\r\n", 1)[1])
    raise AssertionError("no page")

@defer.inlineCallbacks
def built(state, routers=None):
    # A relay may refuse or be late on a busy machine, so a circuit may fail with any tor; its users ask again.
    for attempt in range(5):
        circuit = yield state.build_circuit(routers)
        try:
            circuit = yield circuit.when_built()
        except Exception as e:
            print("again:", e)
            yield task.deferLater(reactor, 1, lambda: None)
            continue
        defer.returnValue(circuit)
    raise AssertionError("no circuit")

@defer.inlineCallbacks
def main(reactor):
    config = txtorcon.TorConfig()
    lines = []
    for line in open(torrc):
        k, _, v = line.strip().partition(" ")
        if k == "DirAuthority":
            lines.append(v)
        elif k:
            setattr(config, k, v)
    config.DirAuthority = lines
    seen = []
    tor = yield txtorcon.launch(reactor, tor_binary=tor_binary, data_directory=directory, _tor_config=config, timeout=60,
        progress_updates=lambda *a: seen.append(a), stdout=sys.stdout, stderr=sys.stderr, kill_on_stderr=True)
    assert any(a[0] == 100 for a in seen), seen
    print("version", tor.version, "running", (yield tor.protocol.get_info("version")))

    # the state
    state = yield tor.create_state()
    assert state.routers and state.tor_pid > 0, (state.routers, state.tor_pid)
    print(len(state.routers), "routers,", len(state.circuits), "circuits, guards", [g.name for g in state.entry_guards.values()], len(state.guards))
    circuit = yield built(state)
    assert len(circuit.path) == 3, circuit.path
    print("built", [r.name for r in circuit.path])
    exits = [r for r in state.all_routers if "exit" in [f.lower() for f in r.flags]]
    mids = [r for r in state.all_routers if "exit" not in [f.lower() for f in r.flags] and "authority" not in [f.lower() for f in r.flags]]
    circuit = yield built(state, [mids[0], mids[1], exits[0]])
    assert [r.id_hex for r in circuit.path] == [r.id_hex for r in (mids[0], mids[1], exits[0])]

    # a stream through that circuit
    host, _, rest = target.partition("://")[2].partition("/")
    host, _, port = host.partition(":")
    ep = circuit.stream_via(reactor, host, int(port), (yield socks_of(tor)))
    p = yield ep.connect(protocol.Factory.forProtocol(lambda: Get(b"GET /bytes/1000 HTTP/1.0\r\n\r\n")))
    got = yield p.done
    assert len(got.split(b"\r\n\r\n", 1)[1]) == 1000, got[:200]
    yield circuit.close()

    # the configuration
    conf = yield tor.get_config()
    yield conf.post_bootstrap  # get_config does not wait until all options are read
    dirty = conf.MaxCircuitDirtiness
    conf.MaxCircuitDirtiness = 20
    yield conf.save()
    print("MaxCircuitDirtiness", dirty, (yield tor.protocol.get_conf("MaxCircuitDirtiness")))

    # onions
    onion = yield tor.create_onion_endpoint(80)
    served = yield onion.listen(server.Site(Page()))
    name = served.getHost().onion_uri
    print("serves", name, served.getHost().onion_port)
    got = yield page(tor, name, 80, b"/")
    assert got == b"by txtorcon", got
    key = served.onion_service.private_key
    yield served.onion_service.remove()
    yield served.stopListening()

    onion = yield tor.create_onion_endpoint(80, private_key=key)
    again = yield onion.listen(server.Site(Page()))
    assert again.getHost().onion_uri == name
    yield again.stopListening()

    with_auth = txtorcon.AuthBasic(["someone"])
    try:
        yield tor.create_authenticated_onion_endpoint(80, with_auth)
    except Exception as e:
        print("basic auth:", e)

    folder = directory + "-service"
    fs = yield tor.create_filesystem_onion_endpoint(80, folder, version=3)
    served = yield fs.listen(server.Site(Page()))
    name = served.getHost().onion_uri
    print("serves", name, "from its folder")
    got = yield page(tor, name, 80, b"/")
    assert got == b"by txtorcon", got

    # another controller connects to the same tor, as txtorcon.connect's users do
    other = yield txtorcon.connect(reactor, endpoints.clientFromString(reactor, control_of(tor)))
    assert (yield other.protocol.get_info("version"))["version"] == (yield tor.protocol.get_info("version"))["version"]
    yield tor.quit()
    print("all well")

@defer.inlineCallbacks
def socks_of(tor):
    answer = yield tor.protocol.get_info("net/listeners/socks")
    first = answer["net/listeners/socks"].split()[0].strip('"')
    defer.returnValue(endpoints.clientFromString(reactor, "unix:" + first[5:] if first.startswith("unix:") else "tcp:" + first))

def control_of(tor):
    peer = tor.protocol.transport.getPeer()
    path = getattr(peer, "name", None)
    if path is not None:
        return "unix:" + (path.decode() if isinstance(path, bytes) else path)
    return "tcp:127.0.0.1:%d" % peer.port

task.react(main)
