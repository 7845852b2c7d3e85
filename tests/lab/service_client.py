"""What a launcher and a service say to one another, byte by byte: ipc/service.h. A test that fails to unpack one says that the two have drifted apart."""
import array
import socket
import struct

from lab.events import DEADLINE

FAILED, COUNTERS, COUNTERS_READ = 1, 5, 6
LEASE, GRANTED, EVENT, LINES, LINES_READ = range(1000, 1005)
PROCESS, NETWORK = 3, 1
START, EXIT, PACKET = 46, 47, 29  # enum reason
EVENT_BYTES = 17080


def event(kind=EVENT, reason=START, activity=1, words=("client",), verdict="", category=PROCESS, numbers=(1, 1, 0, 0, 0, 0)):
    """struct service_event. numbers: start_ms, end_ms, count, wall_ms, cpu_ms, memory_peak_bytes"""
    body = struct.pack("=IIIIIIii", kind, 0, category, activity, reason, len(words), -1, 0)
    body += struct.pack("=6Q", *numbers) + bytes(36)  # no address, no files
    body += verdict.encode().ljust(64, b"\0") + bytes(2 * 64 + 3 * 640)
    body += b"".join(word.encode() + b"\0" for word in words).ljust(4096, b"\0")
    return body.ljust(EVENT_BYTES, b"\0")


def lease(profile="one", start=None):
    return struct.pack("=II64s", LEASE, 0, profile.encode()) + (start or event())


def bare(kind):
    return struct.pack("=II", kind, 0)


class Client:
    """A launcher that says what the test wants."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.connect(path)  # without a timeout: a full queue is waited for
        self.sock.settimeout(DEADLINE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, *messages):
        for message in messages:
            self.sock.send(message)

    def hear(self):
        """@return (kind, bytes, descriptors); kind None at the end"""
        try:
            data, ancillary, _, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(4 * 4))
        except ConnectionError:
            return None, b"", []
        fds = array.array("i")
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(content)
        return (struct.unpack_from("=I", data)[0] if data else None), data, list(fds)

    def failure(self):
        """The line of a refusal."""
        kind, data, _ = self.hear()
        assert kind == FAILED, (kind, data)
        return data[16:].split(b"\0")[0].decode()

    def granted(self, profile="one"):
        """@return (sandbox id, descriptors)"""
        self.send(lease(profile))
        kind, data, fds = self.hear()
        assert kind == GRANTED, data
        return data[60:76].split(b"\0")[0].decode(), fds
