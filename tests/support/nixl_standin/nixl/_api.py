import atexit
import ctypes
import json
import os
import signal
import socket
import sys
import threading
import time

FAULT = os.environ.get("NIXL_STANDIN_FAULT", "")
LOG = os.environ.get("NIXL_STANDIN_LOG")

# A fault for one process only: the first that makes this file.
ONCE = os.environ.get("NIXL_STANDIN_ONCE")
if FAULT and ONCE:
    try:
        os.close(os.open(ONCE, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        FAULT = ""

if FAULT == "import":
    raise ImportError("no stand-in today")

# Like NIXL 1.5.1: whoever leaves through the interpreter's shutdown crashes.
atexit.register(lambda: os.kill(os.getpid(), signal.SIGSEGV))
if FAULT == "crash-at-exit":
    _exit = os._exit
    os._exit = lambda code: os.kill(os.getpid(), signal.SIGSEGV) if code == 0 else _exit(code)


class nixlBackendError(Exception):
    pass


class nixlRemoteDisconnectError(Exception):
    pass


class nixlInvalidParamError(Exception):
    pass


PLUGINS = ["UCX", "LIBFABRIC", "POSIX"]


class nixl_agent_config:
    def __init__(self, enable_prog_thread=True, backends=("UCX",)):
        self.backends = backends


def count(counter, moved):
    """Moves a counter of a fixture HCA, which counts words of four bytes. A file that a test took away stays away."""
    port = os.environ.get("NIXL_STANDIN_PORT")
    path = "%s/counters/%s" % (port, counter)
    if port and FAULT != "still@" + counter and os.path.exists(path):
        with open(path) as f:
            value = int(f.read()) + (moved + 3) // 4
        with open(path, "w") as f:
            f.write("%d\n" % value)


def say(text):
    os.write(1, (text + "\n").encode())  # UCX prints on descriptor 1.


def protocol(data):
    """Writes where the program in front of us speaks its protocol."""
    fd = sys._getframe(2)
    while "PROTO_FD" not in fd.f_globals:
        fd = fd.f_back
    fd = fd.f_globals["PROTO_FD"]
    try:
        while data:
            data = data[os.write(fd, data):]
    except OSError:
        pass


def strike(when):
    """Faults of a whole process, at the moment they are named for."""
    name, _, moment = FAULT.partition("@")
    if moment != when:
        return
    if name == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "oom":
        with open(os.environ["NIXL_STANDIN_ROOT"] + "/sys/fs/cgroup/memory.events", "w") as f:
            f.write("oom_kill 1\n")
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif name == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif name == "hang":
        time.sleep(1000)
    elif name == "rss":
        hog = []
        for _ in range(300):
            hog.append(bytearray(os.urandom(1 << 10) * 1024))
            time.sleep(0.005)
    elif name == "flood":
        for _ in range(1 << 14):
            protocol(b"spam spam spam\n" * 64)
    elif name == "flood-stderr":
        for _ in range(80):
            say("x" * (1 << 20))
    elif name == "giant-line":
        protocol(b'{"ev":"' + b"a" * (1 << 20))
    elif name == "absurd":
        protocol(b'{"ev":"xfer","kind":"WRITE","bytes":-1,"lat_us":"fast"}\n')
    elif name == "unasked":
        protocol(b'{"ev":"checked","ok":true,"compared":64}\n')
    elif name == "raise":
        raise nixlBackendError("NIXL_ERR_BACKEND")
    elif name == "exit":
        sys.exit(3)


class nixl_agent:
    def __init__(self, name, config):
        strike("create")
        if FAULT == "create":
            say("[1.0] [h:1:0]  ucp_context.c:1770 UCX  ERROR no usable transports/devices (asked rc on network)")
            raise nixlBackendError("NIXL_ERR_BACKEND")
        # A plugin that is missing or does not load raises nothing.
        there = [] if FAULT == "no-backend" else [b for b in config.backends if b in PLUGINS]
        self.name, self.backends = name, {b: 1 for b in there}
        if "LIBFABRIC" in there:
            say("I1130 17:41:43.713060 7 libfabric_topology.cpp:1] Using simplified topology for verbs")
        self.path = "\0nixl-standin-%s-%d" % (name, os.getpid())
        self.peer, self.printed = None, False
        server = socket.socket(socket.AF_UNIX)
        server.bind(self.path)
        server.listen(1)
        threading.Thread(target=self._serve, args=(server,), daemon=True).start()

    def _serve(self, server):
        while True:
            peer, _ = server.accept()
            stream = peer.makefile("rwb")
            seen = set()
            for line in stream:
                op = json.loads(line)
                strike("serve")
                again, base = line in seen, min(address for address, _ in op["blocks"])
                seen.add(line)
                for address, size in op["blocks"]:
                    if FAULT == "misplace" and address - base > 1 << 20:
                        address -= 1 << 20
                    if op["kind"] == "WRITE":
                        data = stream.read(size)
                        if FAULT == "deaf":
                            data = bytes(size)
                        if FAULT == "first-only" and again:
                            continue
                        ctypes.memmove(address, data, size)
                    else:
                        data = bytearray(ctypes.string_at(address, size))
                        if FAULT == "flip":
                            data[size // 2] ^= 1
                        stream.write(data)
                received = "port_rcv_data" if op["kind"] == "WRITE" else "port_xmit_data"
                if self.name.endswith("-t"):
                    count(received, sum(size for _, size in op["blocks"]))
                stream.write(b"!")
                stream.flush()

    def get_plugin_list(self):
        return PLUGINS

    def get_agent_metadata(self):
        if "POSIX" in self.backends:
            raise nixlInvalidParamError("NIXL_ERR_INVALID_PARAM")
        return json.dumps({"name": self.name, "path": self.path}).encode()

    def register_memory(self, regions, seg):
        if FAULT == "register":
            say("[1.0] [h:1:0]  ib_md.c:1 UCX  ERROR ibv_reg_mr(address=0x1) failed: Cannot allocate memory : "
                "Please set max locked memory (ulimit -l) to 'unlimited'")
            raise nixlBackendError("NIXL_ERR_BACKEND")

    def add_remote_agent(self, metadata):
        self.peer = json.loads(metadata)
        return self.peer["name"].encode()

    def make_connection(self, name):
        strike("connect")
        if FAULT == "tell":
            say("[1.0] [h:1:0]  select.c:1 UCX  ERROR AWS_SECRET_ACCESS_KEY=canary-1 and token hf_canaryCANARYcanary2")
            raise nixlBackendError("no: HF_TOKEN=canary-3, {'Authorization': 'Bearer canary-4'}")
        if FAULT == "refuse":
            say("[1.0] [h:1:0]  select.c:1 UCX  ERROR   no active messages transport to <no debug data>: tcp/lo - local "
                "loopback remote non-loopback")
            raise nixlBackendError("NIXL_ERR_BACKEND")
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.peer["path"])
        self.stream = s.makefile("rwb")

    def get_xfer_descs(self, blocks, seg):
        return blocks

    def initialize_xfer(self, kind, local, remote, peer):
        if FAULT == "prepare":
            raise nixlBackendError("NIXL_ERR_NOT_FOUND")
        self.checked = 0
        return kind, local, remote

    def transfer(self, handle):
        strike("xfer")
        if LOG and not self.printed:
            with open(LOG) as f:
                say(f.read())
            self.printed = True
        kind, local, remote = handle
        try:
            header = {"kind": kind, "blocks": [(r[0], r[1]) for r in remote]}
            self.stream.write(json.dumps(header).encode() + b"\n")
            if kind == "WRITE":
                for address, size, _ in local:
                    self.stream.write(ctypes.string_at(address, size))
            self.stream.flush()
        except OSError as e:
            raise nixlRemoteDisconnectError(str(e))
        return "PROC"

    def check_xfer_state(self, handle):
        if FAULT == "stall":
            return "PROC"
        kind, local, _ = handle
        self.checked += 1
        if kind == "READ":
            for address, size, _ in local:
                data = self._read(size)
                if FAULT != "first-only" or self.checked == 1:
                    ctypes.memmove(address, data, size)
        self._read(1)
        count("port_xmit_data" if kind == "WRITE" else "port_rcv_data", sum(size for _, size, _ in local))
        return "DONE"

    def _read(self, size):
        try:
            data = self.stream.read(size)
        except OSError as e:
            raise nixlRemoteDisconnectError(str(e))
        if len(data) < size:
            raise nixlRemoteDisconnectError("NIXL_ERR_REMOTE_DISCONNECT")
        return data

    def query_xfer_backend(self, handle):
        return "POSIX" if FAULT == "other-backend" else next(iter(self.backends))

    def release_xfer_handle(self, handle):
        pass
