package interop

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/target"
)

// torProgram returns chive by the name tor.
func torProgram(t *testing.T) string {
	t.Helper()
	binary, err := buildChive()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "tor")
	if err := os.Symlink(binary, link); err != nil {
		t.Fatal(err)
	}
	return link
}

// runPython runs a script with arguments.
func runPython(t *testing.T, python, script string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(bounded(t, patience), python, append([]string{"-c", script}, args...)...)
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestControlStem: stem launches chive as its tor, authenticates in each way, controls it, and sees it end.
func TestControlStem(t *testing.T) {
	runPython(t, stemPython(t), stemControl, torProgram(t), t.TempDir())
}

// TestControlNetwork: with a torrc of a network of C tor's relays, chive as tor carries traffic, and stem sees how it
// comes up, its circuits, its streams and its guards.
func TestControlNetwork(t *testing.T) {
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	python := stemPython(t)
	nw, err := ctor.Start(bounded(t, patience), ctor.Options{Relays: 4, Exits: 2, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	runPython(t, python, stemNetwork, torProgram(t), t.TempDir(), nw.Torrc(), shared.target.Addr(target.Echo))
}

// stemControl needs no network.
const stemControl = `
import atexit, os, shutil, subprocess, sys, time
import stem, stem.connection, stem.control, stem.process, stem.version
tor, dir = sys.argv[1:]
data, port_file = dir + "/data", dir + "/port"
dead = "dead orport=1 no-v2 v3ident=0000000000000000000000000000000000000001 127.0.0.1:1 0000000000000000000000000000000000000002"

def launch(own=False, **extra):
    config = {"DataDirectory": data, "SocksPort": "auto", "ControlPort": "auto", "ControlPortWriteToFile": port_file, "TestingTorNetwork": "1", "DirAuthority": dead}
    config.update(extra)
    p = stem.process.launch_tor_with_config(config=config, tor_cmd=tor, completion_percent=5, timeout=60, take_ownership=own)
    atexit.register(p.kill)  # nothing, once it has ended
    for _ in range(600):
        if os.path.exists(port_file):
            return p
        time.sleep(0.05)
    raise AssertionError("no file with the port")

def connect():
    with open(port_file) as f:
        return stem.control.Controller.from_port(port=int(f.read().split(":")[-1]))

def ends(p):
    assert p.wait(30) == 0
    assert not os.path.exists(port_file)

assert str(stem.version.get_system_tor_version(tor)) == "0.4.9.11-chive"
hashed = subprocess.check_output([tor, "--hush", "--hash-password", "a secret"]).decode().strip()
for extra, password, methods in (({}, None, ("None",)), ({"CookieAuthentication": "1"}, None, ("Cookie", "Safecookie")), ({"HashedControlPassword": hashed}, "a secret", ("Password",))):
    p = launch(**extra)
    with connect() as c:
        assert tuple(c.get_protocolinfo().auth_methods) == methods, c.get_protocolinfo()
        c.authenticate(password)
        c.set_caching(False)  # stem keeps values, and an event that it reads late gives it an old one back
        assert c.get_pid() == p.pid
        assert str(c.get_version()) == "0.4.9.11-chive"
        assert c.get_conf("MaxCircuitDirtiness") == "600" and c.get_conf("UseBridges") == "0"
        assert "PROGRESS=5" in c.get_info("status/bootstrap-phase")
        (host, port), = c.get_listeners(stem.control.Listener.SOCKS)
        assert host == "127.0.0.1" and port > 0
        seen = []
        c.add_event_listener(seen.append, "CONF_CHANGED", "SIGNAL", "NOTICE", "WARN")
        c.set_options({"MaxCircuitDirtiness": "20", "ContactInfo": "a # b"})
        assert c.get_conf("MaxCircuitDirtiness") == "20" and c.get_conf("ContactInfo") == "a # b"
        c.reset_conf("MaxCircuitDirtiness")
        assert c.get_conf("MaxCircuitDirtiness") == "600"
        for name, kind in (("bombay", stem.InvalidArguments), ("NATDPort", stem.InvalidRequest)):
            try:
                c.set_options({"MaxCircuitDirtiness": "30", name: "9001"})
                raise AssertionError("it took " + name)
            except kind:
                pass
        assert c.get_conf("MaxCircuitDirtiness") == "600"
        c.set_options([("UseBridges", "1"), ("Bridge", "127.0.0.1:9")])
        assert c.get_conf("Bridge") == "127.0.0.1:9"
        c.reset_conf("UseBridges", "Bridge")
        c.set_conf("DisableNetwork", "1")
        assert c.get_listeners(stem.control.Listener.SOCKS) == []
        c.set_conf("DisableNetwork", "0")
        for name in ("NEWNYM", "RELOAD", "CLEARDNSCACHE", "HEARTBEAT"):
            c.signal(name)
        for name in (l for l in c.get_info("config/names").splitlines() if not l.startswith("HiddenService") and not l.endswith("Virtual")):
            c.get_conf(name.split()[0], multiple=True)
        c.get_info("info/names"), c.get_info("config-text")
        for _ in range(600):
            if sum(type(e).__name__ == "SignalEvent" for e in seen) == 4:
                break
            time.sleep(0.05)
        kinds = [type(e).__name__ for e in seen]
        assert kinds.count("SignalEvent") == 4 and kinds.count("ConfChangedEvent") >= 4, kinds
        c.signal("HALT")
        ends(p)

p = launch(CookieAuthentication="1")
with open(dir + "/wrong", "wb") as f:
    f.write(b"x" * 32)
for how, args, error in ((stem.connection.authenticate_none, (), stem.connection.OpenAuthRejected),
        (stem.connection.authenticate_password, ("x",), stem.connection.PasswordAuthRejected),
        (stem.connection.authenticate_cookie, (dir + "/wrong",), stem.connection.IncorrectCookieValue),
        (stem.connection.authenticate_safecookie, (dir + "/wrong",), stem.connection.AuthSecurityFailure)):
    try:
        how(connect(), *args)
        raise AssertionError("it let %s in" % how)
    except error:
        pass
for how in (stem.connection.authenticate_cookie, stem.connection.authenticate_safecookie):
    c = connect()
    how(c, data + "/control_auth_cookie")
    c.get_info("version")
    c.close()
p.terminate()
ends(p)

p = launch(own=True)
c = connect()
c.authenticate()  # stem takes ownership
assert c.get_conf("__OwningControllerProcess") is None
c.close()
ends(p)

child = subprocess.Popen(["sleep", "600"])
p = launch(__OwningControllerProcess=str(child.pid))
child.kill()
child.wait()
ends(p)

try:
    launch(ControlPort="invalid")
    raise AssertionError("it started")
except OSError as e:
    assert "Process terminated" in str(e), e
`

// stemNetwork has traffic go through the program.
const stemNetwork = `
import os, socket, struct, subprocess, sys, time
import stem.control
tor, dir, torrc, echo = sys.argv[1:]
keep = ("DirAuthority", "TestingTorNetwork", "EnforceDistinctSubnets", "SafeLogging", "ProtocolWarnings", "GeoIPFile", "GeoIPv6File", "TestingEnable")
text = "DataDirectory %s/data\nSocksPort auto\nControlSocket %s/s\nDisableNetwork 1\n" % (dir, dir)
text += "".join(line + "\n" for line in torrc.splitlines() if line.startswith(keep))
p = subprocess.Popen([tor, "-f", "-", "__OwningControllerProcess", str(os.getpid())], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
p.stdin.write(text.encode())
p.stdin.close()
lines = []
for line in p.stdout:
    lines.append(line.decode())
    if "Opened Control listener connection (ready)" in lines[-1]:
        break
else:
    raise AssertionError("".join(lines))

def until(what, cond):
    end = time.time() + 100
    while not cond():
        if time.time() > end:
            raise AssertionError("waited in vain for " + what)
        time.sleep(0.05)

with stem.control.Controller.from_socket_file(dir + "/s") as c:
    c.authenticate()
    c.set_caching(False)
    circuits, streams, status, bandwidth = [], [], [], []
    c.add_event_listener(circuits.append, "CIRC")
    c.add_event_listener(streams.append, "STREAM")
    c.add_event_listener(status.append, "STATUS_CLIENT")
    c.add_event_listener(bandwidth.append, "BW")
    assert c.get_info("status/circuit-established") == "0"
    c.set_conf("DisableNetwork", "0")
    until("the bootstrap", lambda: "PROGRESS=100" in c.get_info("status/bootstrap-phase"))
    until("the events of the bootstrap", lambda: any(e.action == "CIRCUIT_ESTABLISHED" for e in status))
    assert [e.action for e in status].index("ENOUGH_DIR_INFO") < [e.action for e in status].index("CIRCUIT_ESTABLISHED")
    assert c.get_info("status/enough-dir-info") == c.get_info("status/circuit-established") == "1"
    until("a circuit", lambda: any(e.status == "BUILT" and len(e.path) == 3 for e in circuits))
    assert any(e.status == "LAUNCHED" for e in circuits)
    (host, port), = c.get_listeners(stem.control.Listener.SOCKS)
    s = socket.create_connection((host, port), timeout=60)
    ip, to = echo.rsplit(":", 1)
    s.sendall(b"\x05\x01\x00")
    assert s.recv(2) == b"\x05\x00"
    s.sendall(b"\x05\x01\x00\x01" + socket.inet_aton(ip) + struct.pack(">H", int(to)))
    answer = b""
    while len(answer) < 10:
        answer += s.recv(10 - len(answer))
    assert answer[1] == 0, answer
    s.sendall(b"hello")
    assert s.recv(5) == b"hello"
    until("the stream", lambda: any(e.status == "SUCCEEDED" for e in streams))
    stream, = c.get_streams()
    assert stream.status == "SUCCEEDED" and stream.target == echo, stream
    mine = [e for e in streams if e.id == stream.id]
    assert [e.status for e in mine[:3]] == ["NEW", "SENTCONNECT", "SUCCEEDED"] and mine[0].source_port == s.getsockname()[1] and mine[0].purpose == "USER", mine
    of = {x.id: x for x in c.get_circuits()}
    assert stream.circ_id in of and len(of[stream.circ_id].path) == 3, of
    s.close()
    until("the end of the stream", lambda: any(e.status == "CLOSED" and e.id == stream.id for e in streams))
    until("traffic", lambda: any(e.read > 0 for e in bandwidth))
    assert int(c.get_info("traffic/read")) > 0 and int(c.get_info("traffic/written")) > 0
    assert "up" in c.get_info("entry-guards") and c.get_info("network-liveness") == "up"
    for key in ("valid-after", "fresh-until", "valid-until"):
        assert c.get_info("consensus/" + key).startswith("20")
    assert any(e.status == "EXTENDED" and len(e.path) == 1 and e.build_flags == ("NEED_CAPACITY",) and e.purpose == "GENERAL" and e.created for e in circuits)
    assert any(e.build_flags[:2] == ("ONEHOP_TUNNEL", "IS_INTERNAL") and e.status == "BUILT" for e in circuits)
    relays = list(c.get_network_statuses())
    assert len(relays) >= 6 and all(r.fingerprint and r.flags for r in relays)
    assert c.get_network_status(relays[0].nickname).fingerprint == relays[0].fingerprint
    until("the last microdescriptor", lambda: len(list(c.get_microdescriptors())) == len(relays))  # a few may come late
    assert c.get_microdescriptor(relays[0].fingerprint).ntor_onion_key  # the newest tor has no other key
    assert c.get_info("dir/status-vote/current/consensus-microdesc").startswith("network-status-version 3 microdesc")
    assert "CONNECTED" in c.get_info("orconn-status")
    assert "HOP=3" in c.get_info("chive/circuits") and c.get_info("chive/memory").startswith("HELD=")
    for wrong in ("desc/id/" + relays[0].fingerprint, "ns/id/" + "0" * 40):
        try:
            c.get_info(wrong)
            raise AssertionError("it knows " + wrong)
        except stem.ControllerError:
            pass

    # steering
    def connect(host=ip, port=int(to)):
        s = socket.create_connection((c.get_listeners(stem.control.Listener.SOCKS)[0]), timeout=60)
        s.sendall(b"\x05\x01\x00")
        assert s.recv(2) == b"\x05\x00"
        name = host.encode()
        s.sendall(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + struct.pack(">H", port))
        return s
    def answer(s):
        got = b""
        while len(got) < 10:
            more = s.recv(10 - len(got))
            assert more, got
            got += more
        return got[1]
    exits = [r for r in relays if "Exit" in r.flags]
    others = [r for r in relays if "Exit" not in r.flags][:2]
    chosen = c.new_circuit([others[0].fingerprint, others[1].nickname, exits[0].fingerprint], await_build=True)
    assert [f for f, n in c.get_circuit(chosen).path] == [r.fingerprint for r in (others[0], others[1], exits[0])]
    free = c.new_circuit(await_build=True)
    assert len(c.get_circuit(free).path) == 3

    # a circuit grows by relays that are named, and carries streams from its new end
    short = c.new_circuit([others[0].fingerprint], await_build=True)
    assert c.extend_circuit(short, [others[1].fingerprint, exits[0].nickname]) == short
    until("the new hops", lambda: [e.status for e in circuits if e.id == short] == ["LAUNCHED", "EXTENDED", "BUILT", "EXTENDED", "EXTENDED", "BUILT"])
    assert [f for f, n in c.get_circuit(short).path] == [r.fingerprint for r in (others[0], others[1], exits[0])]
    quick = c.new_circuit([others[0].fingerprint])  # orders may come while it is being built
    assert c.extend_circuit(quick, [others[1].fingerprint]) == quick and c.extend_circuit(quick, [exits[0].fingerprint]) == quick
    until("three hops", lambda: [e for e in circuits if e.id == quick and e.status == "BUILT" and len(e.path) == 3])
    grown = c.extend_circuit(quick, [others[0].fingerprint])
    until("four hops", lambda: len(c.get_circuit(quick).path) == 4 and c.get_circuit(quick).status == "BUILT")
    for command, code in (("EXTENDCIRCUIT %s %s" % (quick, others[0].fingerprint), "551"), ("EXTENDCIRCUIT %s" % quick, "512"), ("EXTENDCIRCUIT 1000000 %s" % others[0].fingerprint, "552"), ("EXTENDCIRCUIT %s nosuch" % quick, "552")):
        assert c.msg(command).content()[-1][0] == code, command
    for x in c.get_circuits():  # those of directories are not a controller's
        if x.build_flags[:1] == ("ONEHOP_TUNNEL",):
            assert c.msg("EXTENDCIRCUIT %s %s" % (x.id, exits[0].fingerprint)).content()[-1][0] == "551"
    c.close_circuit(quick)
    c.set_conf("__LeaveStreamsUnattached", "1")
    def waiting():
        return [x for x in c.get_streams() if x.status in ("NEW", "NEWRESOLVE")]
    for circuit in (chosen, free, short, "0"):
        s = connect()
        until("a stream that waits", lambda: len(waiting()) == 1)
        c.attach_stream(waiting()[0].id, circuit)
        assert answer(s) == 0
        s.sendall(b"hello")
        assert s.recv(5) == b"hello"
        got = [x for x in c.get_streams() if x.status == "SUCCEEDED"][-1]
        assert circuit == "0" or got.circ_id == circuit, (got, circuit)
        c.close_stream(got.id)
        assert got.id not in [x.id for x in c.get_streams()]
        try:
            assert s.recv(1) == b""
        except ConnectionResetError:
            pass
        s.close()
    # lookups wait, too: a controller chooses their circuit
    found = []
    c.add_event_listener(found.append, "ADDRMAP")
    for circuit in (short, "0"):
        before = len(found)
        assert c.msg("RESOLVE localhost.example").is_ok()
        until("a lookup that waits", lambda: len(waiting()) == 1)
        lookup = waiting()[0].id
        assert not found[before:]
        c.attach_stream(lookup, circuit)
        until("the answer", lambda: found[before:])
        assert circuit == "0" or [e.circ_id for e in streams if e.id == lookup and e.status == "SENTRESOLVE"] == [circuit], streams[-8:]
    assert c.msg("RESOLVE localhost.example").is_ok()
    until("a lookup that waits", lambda: len(waiting()) == 1)
    c.close_stream(waiting()[0].id)
    c.remove_event_listener(found.append)
    s = connect("elsewhere.example", 1)
    until("a stream that waits", lambda: len(waiting()) == 1)
    assert c.msg("REDIRECTSTREAM %s %s %s" % (waiting()[0].id, ip, to)).is_ok()
    c.attach_stream(waiting()[0].id, chosen)
    assert answer(s) == 0
    s.close()
    s = connect()
    until("a stream that waits", lambda: len(waiting()) == 1)
    c.set_conf("__LeaveStreamsUnattached", "0")
    assert answer(s) == 0
    s.close()
    mapped, = c.map_address({"0.0.0.0": ip})
    s = connect(mapped)
    assert answer(s) == 0
    s.close()
    c.close_circuit(chosen)
    assert chosen not in [x.id for x in c.get_circuits()]
    until("the end of the circuit", lambda: any(e.id == chosen and e.status == "CLOSED" and e.reason == "REQUESTED" for e in circuits))
    for command, code in (("ATTACHSTREAM 1000000 0", "552"), ("EXTENDCIRCUIT 0 nosuch", "552"), ("CLOSECIRCUIT 1000000", "552"), ("MAPADDRESS a.example=b.example b.example=a.example", "512"), ("DROPTIMEOUTS", "250"), ("DROPGUARDS", "250")):
        assert str(c.msg(command)) and c.msg(command).content()[-1][0] == code, command
    until("another guard", lambda: any(e.status == "BUILT" for e in circuits[-5:]))
    c.signal("NEWNYM")
    c.signal("HALT")
    assert p.wait(30) == 0
`
