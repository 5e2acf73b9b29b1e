"""One end of a pairwise NIXL transfer.

Sent over standard input to the interpreter of a worker container; nothing is written to disk. Commands come in and
events go out as JSON lines (src/transfer/protocol.rs is the other half). Everything that can end this process does so
without the help of the operator's side: a deadline, the end of standard input, silence, a memory limit.

Needs Python 3.8, the standard library and NIXL. It never exits through the interpreter's own shutdown, which crashes
with some NIXL versions.
"""
import os
import signal
import sys

# The rails come before every other import: an import may hang.
PROTO_FD = os.dup(1)  # UCX and NIXL's logger print on descriptor 1, so the protocol moves to a private one.
os.dup2(2, 1)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM, signal.SIGPIPE, signal.SIGTERM})
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
signal.alarm(60)  # Replaced by the deadline of `start`.

import base64
import ctypes
import json
import mmap
import queue
import random
import re
import resource
import socket
import threading
import time

PROTO = 1
START = time.monotonic()
MAX_LINE = 1 << 20
MIB = 1 << 20

# Exit codes. 0 is `bye`; a deadline shows as signal 14.
GONE, IDLE, BAD_COMMAND = 4, 5, 6
IMPORT, CREATE, NO_BACKEND = 10, 11, 12
MEMORY, REGISTER, RSS = 20, 21, 22
CONNECT, PREPARE, TRANSFER = 30, 31, 32
EXCEPTION = 99

# Variables that make a library write files, open ports or wait for a debugger.
ALWAYS_UNSET = re.compile(
    r"UCX_LOG_FILE|UCX_STATS_|UCX_PROFILE_|UCX_PROTO_INFO_DIR|NIXL_TELEMETRY_|NIXL_ETCD_|FI_LOG_PROV_FILE|NCCL_DEBUG_FILE"
)

try:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (ValueError, OSError):
    pass

_write_lock = threading.Lock()


def emit(ev, **fields):
    line = {"ev": ev, "t": round(time.monotonic() - START, 4)}
    line.update(fields)
    data = (json.dumps(line, separators=(",", ":")) + "\n").encode()
    with _write_lock:
        while data:
            data = data[os.write(PROTO_FD, data):]


def die(code, why, detail, **fields):
    try:
        emit("fatal", code=code, why=why, detail=words(detail, 2000), **fields)
    finally:
        os._exit(code)


def words(value, limit):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= limit else text[:limit] + "..."


def error(e):
    text = str(e)
    return "%s: %s" % (type(e).__name__, text) if text else type(e).__name__


# --- commands -------------------------------------------------------------------------------------------------------

_commands = queue.Queue(64)
_heard = time.monotonic()
_leaving = False


def _reader():
    """Takes commands in. A ping is answered here, so that a busy process can be told from a stopped one."""
    global _heard
    stdin = sys.stdin.buffer
    while True:
        line = stdin.readline(MAX_LINE)
        if _leaving:
            return
        if not line.endswith(b"\n"):
            os._exit(GONE)  # The operator's side went away, or sent more than it may.
        _heard = time.monotonic()
        try:
            command = json.loads(line)
            op = command["op"]
        except (ValueError, KeyError, TypeError) as e:
            die(BAD_COMMAND, "bad-command", error(e))
        if op == "ping":
            emit("pong")
        else:
            _commands.put(command)


def receive(idle_s):
    while True:
        try:
            return _commands.get(timeout=1.0)
        except queue.Empty:
            if time.monotonic() - _heard > idle_s:
                die(IDLE, "idle", "no command within %s s" % idle_s)


# --- reading the system ---------------------------------------------------------------------------------------------

ROOT = ""  # A fixture tree in tests.


def read(path):
    try:
        with open(ROOT + path) as f:
            return f.read(1 << 16).strip()
    except (OSError, ValueError):
        return None


def entries(path):
    try:
        return sorted(os.listdir(ROOT + path))[:256]
    except OSError:
        return []


def number(text):
    try:
        return int(text)
    except (TypeError, ValueError):
        return None


def _keyed(text):
    pairs = (line.split() for line in (text or "").splitlines())
    return {p[0]: number(p[1]) for p in pairs if len(p) == 2}


def _own_groups(controller):
    """Directories of our own cgroup and its parents. Without a private cgroup namespace the path is the host's and may
    not be visible; the mount point then is our group."""
    v2, v1 = None, None
    for line in (read("/proc/self/cgroup") or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3 and parts[0] == "0":
            v2 = parts[2]
        elif len(parts) == 3 and controller in parts[1].split(","):
            v1 = parts[2]
    base, path = ("/sys/fs/cgroup/" + controller, v1) if v1 is not None else ("/sys/fs/cgroup", v2 or "/")
    out = []
    while path and path != "/":
        out.append(base + path)
        path = path.rsplit("/", 1)[0]
    return [d for d in out + [base] if os.path.isdir(ROOT + d)]


def cgroup_memory():
    """The tightest limit above us: limit, use without droppable page cache, and how often the kernel killed here."""
    best, kills = None, None
    for d in _own_groups("memory"):
        limit = number(read(d + "/memory.max") or read(d + "/memory.limit_in_bytes"))
        used = number(read(d + "/memory.current") or read(d + "/memory.usage_in_bytes"))
        events = _keyed(read(d + "/memory.events") or read(d + "/memory.oom_control"))
        if kills is None:
            kills = events.get("oom_kill")
        if limit is None or used is None or limit >= 1 << 60:
            continue
        stat = _keyed(read(d + "/memory.stat"))
        used = max(0, used - (stat.get("total_inactive_file") or stat.get("inactive_file") or 0))
        if best is None or limit - used < best["limit"] - best["used"]:
            best = {"limit": limit, "used": used}
    out = best or {"limit": None, "used": None}
    out["oom_kill"] = kills
    return out


def host_room(size):
    """Why `size` bytes of host memory may not be taken, or None."""
    need = size + 512 * MIB  # NIXL and its libraries take 130 to 400 MiB of their own.
    group = cgroup_memory()
    if group["limit"] is not None and group["limit"] - group["used"] < need:
        return "the cgroup has %d of %d bytes in use; the transfer needs %d more" % (
            group["used"], group["limit"], need)
    available = re.search(r"MemAvailable:\s+(\d+) kB", read("/proc/meminfo") or "")
    if available and int(available.group(1)) * 1024 < need:
        return "the node has %d bytes available; the transfer needs %d" % (int(available.group(1)) * 1024, need)
    return None


def cpu():
    """Load and quota, printed beside every number: a busy pod looks like a slow link."""
    quota, throttled = None, None
    for d in _own_groups("cpu"):
        limit = (read(d + "/cpu.max") or "").split()
        if not limit:
            limit = [read(d + "/cpu.cfs_quota_us") or "", read(d + "/cpu.cfs_period_us") or ""]
        top, period = number(limit[0]), number(limit[1] if len(limit) > 1 else None)
        if top and period and top > 0 and (quota is None or top / period < quota):
            quota = round(top / period, 2)
        if throttled is None:
            throttled = _keyed(read(d + "/cpu.stat")).get("nr_throttled")
    return {"load1": round(os.getloadavg()[0], 2), "cpus": len(os.sched_getaffinity(0)), "quota": quota,
            "throttled": throttled}


# Byte and packet counters of EFA and of soft-RoCE (which has no `counters` directory at all).
HW_COUNTERS = ("tx_bytes", "rx_bytes", "tx_pkts", "rx_pkts", "send_bytes", "recv_bytes", "rdma_read_bytes",
               "rdma_write_bytes", "rdma_write_recv_bytes", "rdma_read_resp_bytes", "sent_pkts", "rcvd_pkts",
               "rdma_sends", "rdma_recvs")


def counters(gpu=None):
    """Evidence that does not depend on any text of UCX: name -> value, all in bytes or packets."""
    out = {}
    for d in entries("/sys/class/net"):
        for name in ("tx_bytes", "rx_bytes"):
            out["net/%s/%s" % (d, name)] = number(read("/sys/class/net/%s/statistics/%s" % (d, name)))
    for d in entries("/sys/class/infiniband"):
        for p in entries("/sys/class/infiniband/%s/ports" % d):
            port = "/sys/class/infiniband/%s/ports/%s" % (d, p)
            for name, shown in (("port_xmit_data", "tx_bytes"), ("port_rcv_data", "rx_bytes")):
                value = number(read("%s/counters/%s" % (port, name)))  # In words of four bytes.
                out["ib/%s:%s/%s" % (d, p, shown)] = None if value is None else value * 4
            for name in HW_COUNTERS:
                out["hw/%s:%s/%s" % (d, p, name)] = number(read("%s/hw_counters/%s" % (port, name)))
    if gpu is not None:
        out.update(gpu.nvlink())
    return {k: v for k, v in out.items() if v is not None}


def counted(gpu):
    """Whose counters can be read: a device that is not named here may carry bytes unseen. One that counts both ways is named
    alone, any other with each counter that it has: what it does not count goes unseen, too."""
    devices, out = {}, []
    for device, name in (k.rsplit("/", 1) for k in counters(gpu)):
        devices.setdefault(device, set()).add(name)
    for device, names in devices.items():
        both = any(names.issuperset(pair) for pair in (("tx_bytes", "rx_bytes"), ("sent_pkts", "rcvd_pkts")))
        out += [device] if both else ["%s/%s" % (device, name) for name in names]
    return sorted(out)[:256]


def delta(before, after):
    return {k: after[k] - before[k] for k in after if k in before and after[k] != before[k]}


def ports():
    """RDMA ports as sysfs shows them, and whether this container got their device nodes."""
    nodes = set(entries("/dev/infiniband"))
    granted = {read("/sys/class/infiniband_verbs/%s/ibdev" % v)
               for v in entries("/sys/class/infiniband_verbs") if v in nodes}
    out = []
    for d in entries("/sys/class/infiniband"):
        base = "/sys/class/infiniband/" + d
        driver = os.path.basename(os.path.realpath(ROOT + base + "/device/driver"))
        for p in entries(base + "/ports"):
            port = "%s/ports/%s" % (base, p)
            out.append({"device": d, "port": number(p) or 0, "state": read(port + "/state"),
                        "rate": read(port + "/rate"), "link_layer": read(port + "/link_layer"),
                        "hardware": os.path.exists(ROOT + base + "/device"), "granted": d in granted,
                        "driver": driver if driver != "driver" else None})
    return out[:128]


def mapped(names):
    """Paths of the libraries that really are loaded."""
    out = set()
    for line in (read_all("/proc/self/maps") or "").splitlines():
        path = line.split(None, 5)[-1]
        if ".so" in path and os.path.basename(path).startswith(names):
            out.add(os.path.normpath(path))
    return sorted(out)[:64]


def read_all(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except OSError:
        return None


def watch_rss(limit):
    """A second agent on a host can run away in memory (nixl#1668). This thread needs the interpreter lock; the limit
    on data below and the deadline do not."""
    page = resource.getpagesize()
    while True:
        statm = (read_all("/proc/self/statm") or "").split()
        rss = int(statm[1]) * page if len(statm) > 1 else 0
        if rss > limit:
            die(RSS, "rss", "resident memory is %d bytes, the limit is %d" % (rss, limit), limit=limit)
        time.sleep(0.05)


def limit_data(limit):
    try:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        if hard == resource.RLIM_INFINITY or hard > limit:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    except (ValueError, OSError):
        pass


# --- memory ---------------------------------------------------------------------------------------------------------

class NoRoom(Exception):
    """Memory that cannot or must not be taken."""


class Host:
    seg, dev, gpu = "DRAM", 0, None

    def __init__(self, size):
        why = host_room(size)
        if why:
            raise NoRoom(why)
        self.size = size
        self.map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.addr = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.clear(size)  # Every page is touched before it is registered.

    def clear(self, size):
        ctypes.memset(self.addr, 0, size)

    def put(self, at, data):
        ctypes.memmove(self.addr + at, data, len(data))

    def get(self, at, n):
        return ctypes.string_at(self.addr + at, n)

    def facts(self):
        return {"seg": self.seg}


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Field(ctypes.Structure):
    _fields_ = [("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("timestamp", ctypes.c_longlong),
                ("latency", ctypes.c_longlong), ("type", ctypes.c_int), ("ret", ctypes.c_int),
                ("value", ctypes.c_ulonglong)]


class Gpu:
    """GPU memory. Free memory is read through NVML before a context exists, because a context alone takes hundreds of
    megabytes on a worker that runs near full."""
    seg = "VRAM"

    def __init__(self, size, ordinal, margin):
        self.size, self.dev, self.gpu = size, ordinal, self
        self.cuda = self._library("libcuda.so.1")
        self.nvml = self._library("libnvidia-ml.so.1")
        self._call("cuInit", 0)
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        if ordinal >= count.value:
            raise NoRoom("GPU %d was asked for, and the container sees %d, numbered from 0" % (ordinal, count.value))
        self.device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self.device), ordinal)
        bus = ctypes.create_string_buffer(32)
        self._call("cuDeviceGetPCIBusId", bus, 32, self.device)
        self.pci = bus.value
        self.free, self.total = self._room()
        if self.free < size + margin:
            raise NoRoom("the GPU has %d bytes free; the transfer needs %d and a margin of %d" % (
                self.free, size, margin))
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self._call("cuCtxSetCurrent", context)
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.addr = address.value
        self.clear(size)

    @staticmethod
    def _library(name):
        try:
            return ctypes.CDLL(name)
        except OSError as e:
            if "No such file" in str(e):
                raise NoRoom("%s is not in the container, that is, no GPU driver" % name)
            raise NoRoom("%s cannot be loaded (%s)" % (name, e))

    def _call(self, name, *args):
        code = getattr(self.cuda, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(code, ctypes.byref(text))
            raise NoRoom("%s: %s (%d)" % (name, (text.value or b"?").decode(), code))

    def _ask(self, name, *args):
        code = getattr(self.nvml, name)(*args)
        if code:
            raise NoRoom("%s: NVML error %d" % (name, code))

    def _room(self):
        self._ask("nvmlInit_v2")
        self.handle = ctypes.c_void_p()
        self._ask("nvmlDeviceGetHandleByPciBusId_v2", ctypes.c_char_p(self.pci), ctypes.byref(self.handle))
        now, pending = ctypes.c_uint(), ctypes.c_uint()
        if self.nvml.nvmlDeviceGetMigMode(self.handle, ctypes.byref(now), ctypes.byref(pending)) == 0 and now.value:
            raise NoRoom("the GPU is split (MIG), and the room of a slice cannot be read before a context exists")
        memory = _Memory()
        self._ask("nvmlDeviceGetMemoryInfo", self.handle, ctypes.byref(memory))
        return memory.free, memory.total

    def nvlink(self):
        """Sums over all links, in bytes. Field ids 138 and 139 count KiB of payload sent and received."""
        out = {}
        for field, name in ((138, "tx_bytes"), (139, "rx_bytes")):
            f = _Field(field=field, scope=0xFFFFFFFF)
            try:
                if self.nvml.nvmlDeviceGetFieldValues(self.handle, 1, ctypes.byref(f)) == 0 and f.ret == 0:
                    out["nvlink/%s/%s" % (self.pci.decode(), name)] = f.value * 1024
            except AttributeError:
                pass
        return out

    def clear(self, size):
        self._call("cuMemsetD8_v2", ctypes.c_uint64(self.addr), ctypes.c_ubyte(0), ctypes.c_size_t(size))
        self._call("cuCtxSynchronize")

    def put(self, at, data):
        self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.addr + at), data, ctypes.c_size_t(len(data)))
        self._call("cuCtxSynchronize")

    def get(self, at, n):
        data = ctypes.create_string_buffer(n)
        self._call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(self.addr + at), ctypes.c_size_t(n))
        return data.raw

    def facts(self):
        name = ctypes.create_string_buffer(96)
        self.cuda.cuDeviceGetName(name, 96, self.device)

        def attribute(code):
            value = ctypes.c_int(-1)
            ok = self.cuda.cuDeviceGetAttribute(ctypes.byref(value), code, self.device) == 0
            return bool(value.value) if ok else None

        return {"seg": self.seg, "gpu": name.value.decode(errors="replace"), "pci": self.pci.decode(),
                "free": self.free, "total": self.total, "gpu_direct_rdma": attribute(116),
                "dma_buf": attribute(124), "fabric_handle": attribute(128),
                "imex": bool(entries("/dev/nvidia-caps-imex-channels"))}


def take_memory(cfg, size):
    want, note = cfg.get("mem", "auto"), None
    if want in ("auto", "gpu"):
        try:
            return Gpu(size, int(cfg.get("gpu", 0)), int(cfg.get("gpu_margin", 1024 * MIB))), None
        except (NoRoom, AttributeError) as e:
            if want == "gpu":
                die(MEMORY, "gpu-memory", str(e))
            note = str(e)
    try:
        return Host(size), note
    except NoRoom as e:
        die(MEMORY, "host-memory", str(e))
    except (OSError, MemoryError, ValueError) as e:
        die(MEMORY, "host-memory", error(e))


# --- the pattern ----------------------------------------------------------------------------------------------------

PERIOD = MIB + 7  # A prime: no multiple of a block or of a descriptor is one of it, so that no two places look alike.
EARLIER = 1 << 32  # Added to the seed of a step: what all its operations but the last one write.
_pattern = {}


def block(seed, index, n):
    """Every block of 1 MiB differs by seed and by index, throughout: bytes from any other place or of any other operation
    are other bytes."""
    if seed not in _pattern:
        _pattern.clear()
        _pattern[seed] = 2 * random.Random(seed).getrandbits(8 * PERIOD).to_bytes(PERIOD, "little")
    at = index * MIB % PERIOD
    return _pattern[seed][at:at + n]


def fill(mem, seed, size):
    for i, at in enumerate(range(0, size, MIB)):
        mem.put(at, block(seed, i, min(MIB, size - at)))


def check(mem, seed, size):
    """Compares every byte; says where the first difference is, and whether nothing arrived there: that block holds zeros
    only, or what an earlier operation had written."""
    first, bad = None, 0
    for i, at in enumerate(range(0, size, MIB)):
        n = min(MIB, size - at)
        got, want = mem.get(at, n), block(seed, i, n)
        if got == want:
            continue
        bad += 1
        if first is None:
            k = next(j for j in range(n) if got[j] != want[j])
            first = {"bad_at": at + k, "zeros": got.count(0) == n, "earlier": got == block(seed + EARLIER, i, n)}
    return {"ok": True, "compared": size} if first is None else dict(first, ok=False, compared=size, bad_blocks=bad)


def offsets(count, size, seed):
    """KV blocks lie scattered in a paged cache, so descriptors do not follow each other either."""
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return [i * size for i in order]


# --- NIXL -----------------------------------------------------------------------------------------------------------

NIXL_MODULES = ("nixl._api", "nixl_cu13._api", "nixl_cu12._api", "nixl_rocm._api")


def forget(roots):
    for name in [k for k in sys.modules if k.split(".")[0] in roots]:
        del sys.modules[name]


def stub_torch():
    """NIXL before 1.5 imports torch (seconds, hundreds of megabytes) for isinstance checks only; its meta package
    also reads torch.version.cuda to choose a variant, so that value comes from disk."""
    import importlib.util
    import types
    cuda = None
    try:
        spec = importlib.util.find_spec("torch")
        text = read_all(os.path.join(os.path.dirname(spec.origin), "version.py")) if spec and spec.origin else ""
        found = re.search(r"^cuda.*=\s*['\"]([^'\"]+)['\"]", text or "", re.M)
        cuda = found.group(1) if found else None
    except Exception:
        pass
    torch, version = types.ModuleType("torch"), types.ModuleType("torch.version")
    version.cuda, torch.version, torch.__path__ = cuda, version, []
    torch.Tensor = type("Tensor", (), {})
    sys.modules["torch"], sys.modules["torch.version"] = torch, version


def broken_modules(errors):
    """Modules that are there and cannot be imported, with why."""
    broken = []
    for name, e in errors:
        absent = isinstance(e, ModuleNotFoundError) and e.name == name.split(".")[0]
        text = "%s: %s" % (name, words(error(e), 300))
        if not absent and text not in broken:
            broken.append(text)
    return broken


def not_importable(errors):
    """Why NIXL cannot be imported, in words. A module that is there and breaks says more than those that are not there."""
    broken = broken_modules(errors)
    if broken:
        return "; ".join(broken)
    return "Python %s at %s has none of the modules %s" % (
        sys.version.split()[0], sys.executable or "an unknown place", ", ".join(n.split(".")[0] for n in NIXL_MODULES))


def import_nixl(stub):
    errors = []
    modes = ["stub", "real"] if stub and "torch" not in sys.modules else ["real"]
    for mode in modes:
        if mode == "stub":
            stub_torch()
        api = None
        for name in NIXL_MODULES:
            try:
                __import__(name)
                api = sys.modules[name]
                break
            except Exception as e:
                errors.append((name, e))
        if mode == "stub":
            forget(("torch",))
        if api is not None:
            return api, mode, broken_modules(errors)
        forget(("nixl", "nixl_cu12", "nixl_cu13", "nixl_rocm"))
    die(IMPORT, "nixl-import", not_importable(errors), python=sys.executable)


def create_agent(api, cfg, backend):
    wanted = {"backends": [backend]}
    if cfg.get("prog_thread") is not None:
        wanted["enable_prog_thread"] = bool(cfg["prog_thread"])
    try:
        config = api.nixl_agent_config(**wanted)
    except TypeError:
        config = api.nixl_agent_config(backends=[backend])
    try:
        agent = api.nixl_agent(cfg["name"], config)
    except Exception as e:
        if type(e).__name__ == "nixlNotFoundError":
            die(NO_BACKEND, "not-loaded", "its plugin is there and does not load (%s)" % error(e))
        die(CREATE, "agent-create", error(e), memlock=memlock())
    # A missing plugin raises nothing: the agent is created without it.
    if backend not in getattr(agent, "backends", {}):
        there = sorted(plugins(agent))
        if backend in there:
            die(NO_BACKEND, "not-loaded", "its plugin is there and does not load, and NIXL raised nothing")
        die(NO_BACKEND, "no-plugin", "its plugins are " + ", ".join(there) if there else "it has no plugins at all")
    return agent


def metadata_of(agent):
    """What the other end needs to know. A backend that only reaches files and storage has none."""
    try:
        return agent.get_agent_metadata()
    except Exception as e:
        if type(e).__name__ == "nixlInvalidParamError":
            die(NO_BACKEND, "local-backend", "it gives no address for another agent (%s)" % error(e))
        die(CREATE, "agent-metadata", error(e))


def plugins(agent):
    try:
        return [str(p) for p in agent.get_plugin_list()][:64]
    except Exception:
        return []


def memlock():
    return [-1 if v == resource.RLIM_INFINITY else v for v in resource.getrlimit(resource.RLIMIT_MEMLOCK)]


def versions():
    try:
        from importlib import metadata
    except ImportError:
        return {}
    out = {}
    for name in ("nixl", "nixl-cu12", "nixl-cu13", "nixl-rocm", "numpy"):
        try:
            out[name] = metadata.version(name)
        except Exception:
            pass
    return out


def echo(names):
    """Only variables that the operator's side names, without credentials in URLs."""
    out = {}
    for name in names[:512]:
        if name in os.environ:
            out[name] = words(re.sub(r"(\w+://)[^/@\s]*@", r"\1", os.environ[name]), 512)
    return out


# --- transfers ------------------------------------------------------------------------------------------------------

SPIN_NS = 300000  # Spin for short transfers, then leave the core to others.


def one(agent, handle, timeout_s):
    """One operation: its time in nanoseconds, or the step at which it failed and how."""
    began, limit = time.perf_counter_ns(), time.monotonic() + timeout_s
    try:
        state = agent.transfer(handle)
    except Exception as e:
        return None, ("post", error(e))
    while state == "PROC":
        try:
            state = agent.check_xfer_state(handle)
        except Exception as e:
            return None, ("poll", error(e))
        if state == "PROC":
            if time.perf_counter_ns() - began > SPIN_NS:
                time.sleep(2e-5)
            if time.monotonic() > limit:
                return None, ("stall", "no completion within %s s" % timeout_s)
    if state != "DONE":
        return None, ("status", str(state))
    return time.perf_counter_ns() - began, None


def percentiles(samples):
    s = sorted(samples)

    def at(p):
        return round(s[min(len(s) - 1, int(len(s) * p))] / 1e3, 3)

    return {"min": at(0), "p50": at(.5), "p90": at(.9), "p99": at(.99), "max": round(s[-1] / 1e3, 3)}


class End:
    def __init__(self, cfg):
        self.cfg, self.peer = cfg, None
        self.size = int(cfg["bytes"])
        self.left = int(cfg.get("run_bytes", 4 << 30))
        backend = str(cfg.get("backend", "UCX"))
        self.mem, note = take_memory(cfg, self.size)
        began = time.monotonic()
        api, torch, passed_over = import_nixl(cfg.get("stub_torch", True))
        imported = time.monotonic()
        self.agent = create_agent(api, cfg, backend)
        created = time.monotonic()
        try:
            self.agent.register_memory([(self.mem.addr, self.size, self.mem.dev, "")], self.mem.seg)
        except Exception as e:
            die(REGISTER, "register", error(e), memlock=memlock(), seg=self.mem.seg)
        metadata = metadata_of(self.agent)
        emit("ready", proto=PROTO, role=cfg["role"], name=cfg["name"], pid=os.getpid(), host=socket.gethostname(),
             python=sys.version.split()[0], executable=sys.executable, nixl_module=api.__name__,
             nixl_file=getattr(api, "__file__", None), passed_over=passed_over[:4], torch=torch, dist=versions(), backend=backend,
             import_s=round(imported - began, 3), create_s=round(created - imported, 3),
             plugins=plugins(self.agent), memlock=memlock(), mem=self.mem.facts(), host_memory_because=note,
             libs=mapped(("libucp", "libuct", "libnixl", "libplugin_", "libcuda.so", "libfabric")),
             cgroup=cgroup_memory(), cpu=cpu(), ports=ports(), counted=counted(self.mem.gpu), env=echo(cfg.get("echo", [])),
             md=base64.b64encode(metadata if isinstance(metadata, bytes) else metadata.encode()).decode(),
             addr=self.mem.addr, bytes=self.size, dev=self.mem.dev, seg=self.mem.seg)

    def within(self, command):
        n = int(command["bytes"])
        if not 0 < n <= self.size:
            die(BAD_COMMAND, "bad-command", "%d bytes do not fit a buffer of %d" % (n, self.size))
        return n

    def fill(self, c):
        fill(self.mem, int(c["seed"]), self.within(c))
        emit("filled", seed=c["seed"], bytes=c["bytes"])

    def clear(self, c):
        self.mem.clear(self.within(c))
        emit("cleared", bytes=c["bytes"])

    def check(self, c):
        emit("checked", seed=c["seed"], bytes=c["bytes"], **check(self.mem, int(c["seed"]), self.within(c)))

    def counters(self, _):
        emit("counters", counters=counters(self.mem.gpu))

    def connect(self, c):
        began = time.monotonic()
        try:
            name = self.agent.add_remote_agent(base64.b64decode(c["md"]))
            name = name.decode() if isinstance(name, bytes) else name
            if hasattr(self.agent, "make_connection"):
                self.agent.make_connection(name)
        except Exception as e:
            die(CONNECT, "connect", error(e))
        self.peer = dict(c, name=name)
        emit("connected", peer=str(name), s=round(time.monotonic() - began, 4))

    def xfer(self, c):
        if self.peer is None:
            die(BAD_COMMAND, "bad-command", "xfer before connect")
        kind, size, count, seed = str(c["kind"]), int(c["bytes"]), int(c["descs"]), int(c["seed"])
        total = size * count
        if kind not in ("WRITE", "READ") or size <= 0 or count <= 0 or total > min(self.size, int(self.peer["bytes"])):
            die(BAD_COMMAND, "bad-command", "%s of %d x %d bytes" % (kind, count, size))
        # The first operation sets the path up and is timed apart; it counts towards the bytes.
        allowed = min(int(c.get("step_bytes", 1 << 30)), self.left) // total - 1
        iters = min(int(c["iters"]), allowed)
        if iters < 1:
            die(BAD_COMMAND, "bad-command", "the cap on bytes leaves no room for %d bytes twice" % total)
        places = offsets(count, size, seed)
        local = self.agent.get_xfer_descs([(self.mem.addr + o, size, self.mem.dev) for o in places], self.mem.seg)
        remote = self.agent.get_xfer_descs(
            [(int(self.peer["addr"]) + o, size, int(self.peer["dev"])) for o in places], str(self.peer["seg"]))

        def renew(seed):
            """An operation that moves nothing must not pass for what was moved before it."""
            if kind == "WRITE":
                fill(self.mem, seed, total)
            else:
                self.mem.clear(total)

        renew(seed + EARLIER)
        timeout = float(c.get("op_timeout_s", 10))
        busy, before = cpu(), counters(self.mem.gpu)
        try:
            handle = self.agent.initialize_xfer(kind, local, remote, self.peer["name"])
        except Exception as e:
            die(PREPARE, "initialize-xfer", error(e), kind=kind, bytes=size, descs=count)
        first, samples, failed = None, [], None
        first, failed = one(self.agent, handle, timeout)
        stop = time.monotonic() + float(c.get("budget_s", 3))
        while not failed and len(samples) < iters:
            last = len(samples) == iters - 1 or time.monotonic() > stop
            if last:
                renew(seed)
            took, failed = one(self.agent, handle, timeout)
            if took is not None:
                samples.append(took)
            if last:
                break
        moved = total * (len(samples) + (first is not None))
        self.left -= total * (len(samples) + 1)
        changed = delta(before, counters(self.mem.gpu))
        if failed:
            die(TRANSFER, "xfer", failed[1], phase=failed[0], kind=kind, bytes=size, descs=count, moved=moved,
                delta=changed)
        out = {"kind": kind, "seed": seed, "bytes": size, "descs": count, "iters": len(samples), "first_us": round(first / 1e3, 3),
               "moved": moved, "delta": changed, "lat_us": percentiles(samples),
               "gbps": float("%.6g" % (total * len(samples) * 8 / sum(samples)))}
        now = cpu()
        if busy["throttled"] is not None and now["throttled"] is not None:
            now["throttled"] -= busy["throttled"]
        out["cpu"] = now
        try:
            out["backend"] = str(self.agent.query_xfer_backend(handle))
        except Exception:
            pass
        if kind == "READ":
            out["verify"] = check(self.mem, seed, total)
        try:
            self.agent.release_xfer_handle(handle)
        except Exception as e:
            out["release"] = words(error(e), 300)
        emit("xfer", **out)

    def bye(self, _):
        global _leaving
        _leaving = True  # The other side may close our input as soon as it has read the answer.
        emit("bye", maxrss_kb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        os._exit(0)


def main():
    global ROOT
    emit("hello", python=sys.version.split()[0])  # From here on it is this program that fails, and not its interpreter.
    threading.Thread(target=_reader, daemon=True).start()
    cfg = receive(20)
    if cfg.get("op") != "start" or cfg.get("proto") != PROTO:
        die(BAD_COMMAND, "bad-command", "the first command must be start, of protocol %d" % PROTO)
    signal.alarm(max(1, int(cfg.get("deadline_s", 60))))
    ROOT = str(cfg.get("root", ""))
    for name in cfg.get("unset_env", []):
        os.environ.pop(name, None)
    os.environ.update({str(k): str(v) for k, v in cfg.get("env", {}).items()})
    # Last, since the worker's own settings may hold them: its log would be truncated.
    for name in [n for n in os.environ if ALWAYS_UNSET.match(n)]:
        os.environ.pop(name, None)
    os.environ["UCX_LOG_FILE"] = ""  # Unset, ucx.conf could still name a file.
    os.environ["UCX_LOG_LEVEL_TRIGGER"] = "fatal"  # UCX would abort at the first line of the level that is asked for here.
    if os.environ.get("UCX_HANDLE_ERRORS", "bt") not in ("bt", "none"):
        os.environ["UCX_HANDLE_ERRORS"] = "bt"  # `freeze` and `debug` would wait for a person.
    limit = int(cfg["bytes"]) + int(cfg.get("rss_bytes", 2 << 30))
    threading.Thread(target=watch_rss, args=(limit,), daemon=True).start()
    if cfg.get("mem") == "host":
        limit_data(2 * limit)
    end = End(cfg)
    handlers = {"fill": end.fill, "clear": end.clear, "check": end.check, "counters": end.counters,
                "connect": end.connect, "xfer": end.xfer, "bye": end.bye}
    while True:
        command = receive(float(cfg.get("idle_s", 30)))
        handler = handlers.get(command["op"])
        if handler is None:
            die(BAD_COMMAND, "bad-command", words(str(command["op"]), 80))
        handler(command)


try:
    main()
except Exception as e:
    import traceback
    traceback.print_exc()
    die(EXCEPTION, "exception", error(e))
except BaseException as e:  # An embedded sys.exit or interrupt must not reach the interpreter's shutdown either.
    die(EXCEPTION, "exception", error(e))
