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
import os, shutil, subprocess, sys, time
import stem, stem.connection, stem.control, stem.process, stem.version
tor, dir = sys.argv[1:]
data, port_file = dir + "/data", dir + "/port"
dead = "dead orport=1 no-v2 v3ident=0000000000000000000000000000000000000001 127.0.0.1:1 0000000000000000000000000000000000000002"

def launch(own=False, **extra):
    config = {"DataDirectory": data, "SocksPort": "auto", "ControlPort": "auto", "ControlPortWriteToFile": port_file, "TestingTorNetwork": "1", "DirAuthority": dead}
    config.update(extra)
    p = stem.process.launch_tor_with_config(config=config, tor_cmd=tor, completion_percent=5, timeout=60, take_ownership=own)
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
        for name, kind in (("bombay", stem.InvalidArguments), ("ORPort", stem.InvalidRequest)):
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
        for name in (l for l in c.get_info("config/names").splitlines() if not l.startswith("HiddenService")):
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
    assert stream.status == "SUCCEEDED" and stream.target_address == "(hidden)", stream
    of = {x.id: x for x in c.get_circuits()}
    assert stream.circ_id in of and len(of[stream.circ_id].path) == 3, of
    s.close()
    until("the end of the stream", lambda: any(e.status == "CLOSED" and e.id == stream.id for e in streams))
    assert echo not in "".join(str(e) for e in streams)
    until("traffic", lambda: any(e.read > 0 for e in bandwidth))
    assert int(c.get_info("traffic/read")) > 0 and int(c.get_info("traffic/written")) > 0
    assert "up" in c.get_info("entry-guards") and c.get_info("network-liveness") == "up"
    for key in ("valid-after", "fresh-until", "valid-until"):
        assert c.get_info("consensus/" + key).startswith("20")
    c.signal("NEWNYM")
    c.signal("HALT")
    assert p.wait(30) == 0
`
