"""
Driving eclusa-netd as launcher and proxy do: start it in a network namespace of its own, take a lease, run code inside. The
messages are those of ipc/message.h; a test that fails to unpack one says that the two have drifted apart.
"""
import array
import ctypes
import fcntl
import os
import socket
import struct
import subprocess

from lab.eclusa import program
from lab.namespaces import in_thread

NETD = os.path.join(os.path.dirname(program()), "eclusa-netd")

(FAILED, NETD_START, LEASE, LEASE_GRANTED, COUNTERS, COUNTERS_READ, LISTENERS, SANDBOX_ADD,
 SANDBOX_ADDED, SANDBOX_REMOVE) = range(1, 11)
LEASE_PLACED = 27
SANDBOX_REFUSED = 30
CLASSES = ["private", "link-local", "metadata", "special", "public", "service-port", "udp", "connections", "questions"]
OPENED_MAX = 256
CAPTURED_MAX = 256
WATCHDOG_S = 20

CLONE_NEWNET = 0x40000000
CLONE_NEWUSER = 0x10000000
PR_SET_DUMPABLE = 4
libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def enter_host_namespace(uid):
    """In the child, before netd: an empty namespace that plays the host, for @uid in a user namespace of its own."""
    if uid is not None:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        check(libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
        check(libc.unshare(CLONE_NEWUSER))
        for name, text in (("setgroups", "deny"), ("gid_map", f"0 {uid} 1"), ("uid_map", f"0 {uid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    check(libc.unshare(CLONE_NEWNET))


def receive(channel, fds_max=40):
    """One message and its descriptors; (b"", []) at the end of the channel."""
    data, ancillary, _, _ = channel.recvmsg(65536, socket.CMSG_SPACE(4 * fds_max))
    fds = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[:len(content) - len(content) % 4])
    return data, list(fds)


def kind_of(data):
    return struct.unpack_from("=I", data)[0] if data else None


def opened_entry(address, bits, protocol, first, last):
    family = 4 if "." in address else 6
    raw = socket.inet_pton(socket.AF_INET if family == 4 else socket.AF_INET6, address)
    return struct.pack("=B16sBBBHH", family, raw, bits, protocol, 0, first, last)


def captured_entry(address, bits):
    return struct.pack("=B16sB", 4, socket.inet_aton(address), bits)


class Netd:
    """A running eclusa-netd with this process as its launcher and its proxy."""

    def __init__(self, uid=None, workers=1, guard_uid=None, opened=(), captured=(), env=None, start=True, host=None,
                 before=None):
        self.launcher, launcher_far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.proxy, proxy_far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for channel in (self.launcher, self.proxy):
            channel.settimeout(WATCHDOG_S)
        self.listeners, self.transparent, self.dns_udp, self.dns_tcp = [], [], [], []
        self.guard_fd = None
        far = [os.dup(launcher_far.fileno()), os.dup(proxy_far.fileno())]

        def prepare():
            if host is not None:
                check(libc.setns(host, CLONE_NEWNET))
            else:
                enter_host_namespace(uid)
            if before is not None:
                before()
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in far]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [NETD], preexec_fn=prepare, close_fds=False, stdin=subprocess.DEVNULL,
            env={**os.environ, **(env or {})})
        for fd in far:
            os.close(fd)
        launcher_far.close()
        proxy_far.close()
        if start:
            self.start(workers, guard_uid, opened, captured)

    def start(self, workers, guard_uid=None, opened=(), captured=()):
        entries = b"".join(opened)
        body = struct.pack("=IIIIII", NETD_START, 0, workers, guard_uid or 0, int(guard_uid is not None),
                           len(opened))
        ranges = b"".join(captured)
        self.launcher.send(body + entries.ljust(24 * OPENED_MAX, b"\0") + struct.pack("=IIII", len(captured), 0, 0, 0)
                           + ranges.ljust(18 * CAPTURED_MAX, b"\0"))

    def accept_listeners(self):
        data, fds = receive(self.proxy)
        assert kind_of(data) == LISTENERS, self.failure()
        count, kinds, has_guard = struct.unpack_from("=III", data, 8)
        assert kinds == 4 and len(fds) == kinds * count + has_guard
        doors = [socket.socket(fileno=fd) for fd in fds[:kinds * count]]
        self.listeners, self.transparent, self.dns_udp, self.dns_tcp = (doors[n * count:(n + 1) * count]
                                                                       for n in range(kinds))
        self.guard_fd = fds[kinds * count] if has_guard else None
        return self.listeners

    def hear(self):
        """What netd says to its launcher, but for the namespace that is shown before it is granted."""
        data, fds = receive(self.launcher)
        while kind_of(data) == LEASE_PLACED:
            for fd in fds:
                os.close(fd)
            data, fds = receive(self.launcher)
        return data, fds

    def failure(self):
        """The line of MESSAGE_FAILED, or None."""
        data, _ = self.hear()
        if kind_of(data) != FAILED:
            return None
        return data[16:].split(b"\0")[0].decode()

    def ask_lease(self, sandbox_id="sb-0000000001", profile="run"):
        self.launcher.send(struct.pack("=II16s64s", LEASE, 0, sandbox_id.encode(), profile.encode()))

    def acknowledge(self):
        """Play the proxy: wait for SANDBOX_ADD, answer ADDED. Returns (sandbox id, address)."""
        data, _ = receive(self.proxy)
        assert kind_of(data) == SANDBOX_ADD, (data, self.failure())
        self.proxy.send(struct.pack("=I", SANDBOX_ADDED) + data[4:])
        return data[8:24].split(b"\0")[0].decode(), socket.inet_ntoa(data[89:93])

    def take_granted(self):
        data, fds = self.hear()
        assert kind_of(data) == LEASE_GRANTED, data
        sandbox = socket.inet_ntoa(data[9:13])
        service = socket.inet_ntoa(data[26:30])
        port = struct.unpack_from("=H", data, 42)[0]
        assert len(fds) == 1
        return Sandbox(fds[0], sandbox, service, port)

    def lease(self):
        self.ask_lease()
        self.acknowledge()
        return self.take_granted()

    def counters(self):
        self.launcher.send(struct.pack("=II", COUNTERS, 0))
        data, _ = self.hear()
        assert kind_of(data) == COUNTERS_READ, data
        count, = struct.unpack_from("=I", data, 8 + 8 * len(CLASSES))
        self.samples = {}
        first = 16 + 8 * len(CLASSES)
        for at in range(first, first + 24 * count, 24):
            kind, address, protocol, _, port, _, packets = struct.unpack_from("=I4sBBHIQ", data, at)
            self.samples[CLASSES[kind], socket.inet_ntoa(address), protocol, port] = packets
        return dict(zip(CLASSES, struct.unpack_from(f"={len(CLASSES)}Q", data, 8)))

    def end(self):
        for channel in (self.launcher, self.proxy, *self.listeners, *self.transparent, *self.dns_udp, *self.dns_tcp):
            channel.close()
        if self.guard_fd is not None:
            os.close(self.guard_fd)
            self.guard_fd = None
        return self.process.wait(WATCHDOG_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.end()


class Sandbox:
    """The far end: a network namespace by descriptor."""

    def __init__(self, fd, address, service, port):
        self.fd, self.address, self.service, self.port = fd, address, service, port

    def inside(self, function, *args):
        """Call @function in a thread that is in the namespace: sockets made there belong to it."""
        def body():
            check(libc.setns(self.fd, CLONE_NEWNET))
            return function(*args)

        return in_thread(body)

    def shell(self, command):
        return self.inside(lambda: subprocess.run(
            ["sh", "-c", command], check=True, capture_output=True, text=True, timeout=WATCHDOG_S).stdout)

    def close(self):
        os.close(self.fd)
