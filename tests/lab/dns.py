"""The lab's name server: authoritative for what a test wrote down, UDP and TCP, and a log of every question."""
import ipaddress
import socket
import struct
import threading

from lab.events import Record

TYPES = {"A": 1, "AAAA": 28}
TYPE_NAMES = {number: name for name, number in TYPES.items()}
NOERROR, SERVFAIL, NXDOMAIN = 0, 2, 3


class Question:
    def __init__(self, name, kind, transport):
        self.name, self.kind, self.transport = name, kind, transport

    def __repr__(self):
        return f"{self.name} {self.kind}/{self.transport}"


def parse_question(packet):
    """The first question of a query: (identifier, name as spelled, type number, its bytes)."""
    identifier, _flags, count = struct.unpack(">HHH", packet[:6])
    if count < 1:
        raise ValueError("no question")
    labels, at = [], 12
    while packet[at]:
        length = packet[at]
        if length > 63:
            raise ValueError("compressed question")
        labels.append(packet[at + 1:at + 1 + length].decode("latin-1"))
        at += 1 + length
    kind, _class = struct.unpack(">HH", packet[at + 1:at + 5])
    return identifier, ".".join(labels), kind, packet[12:at + 5]


class LabDns:
    """
    zone: lower-case name -> list of addresses, an rcode, or a function of (how often this name and type were asked
    before, type) that returns one of these. A name "*.x" serves every name below x that is not listed itself.
    """

    def __init__(self, namespace, address="203.0.113.53"):
        self.zone = {}
        self.log = Record()
        self.asked = {}
        self.lock = threading.Lock()

        def bind():
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            udp.bind((address, 53))
            tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tcp.bind((address, 53))
            tcp.listen(64)
            return udp, tcp

        self.udp, self.tcp = namespace.inside(bind)
        threading.Thread(target=self._serve_udp, daemon=True).start()
        threading.Thread(target=self._serve_tcp, daemon=True).start()

    def close(self):
        for sock in (self.udp, self.tcp):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()

    def _find(self, name):
        if name in self.zone:
            return self.zone[name]
        labels = name.split(".")
        for cut in range(1, len(labels)):
            entry = self.zone.get("*." + ".".join(labels[cut:]))
            if entry is not None:
                return entry
        return NXDOMAIN

    def _answer(self, packet, transport):
        identifier, spelled, number, question = parse_question(packet)
        name, kind = spelled.lower(), TYPE_NAMES.get(number, str(number))
        with self.lock:
            before = self.asked.get((name, kind), 0)
            self.asked[(name, kind)] = before + 1
        self.log.add(Question(spelled, kind, transport))
        entry = self._find(name)
        if callable(entry):
            entry = entry(before, kind)
        rcode, addresses = (entry, []) if isinstance(entry, int) else (NOERROR, entry)
        records = []
        for address in map(ipaddress.ip_address, addresses):
            if number == (1 if address.version == 4 else 28):
                records.append(b"\xc0\x0c" + struct.pack(">HHIH", number, 1, 0, len(address.packed)) + address.packed)
        header = struct.pack(">HHHHHH", identifier, 0x8400 | (struct.unpack(">H", packet[2:4])[0] & 0x0100) | rcode,
                             1, len(records), 0, 0)
        return header + question + b"".join(records)

    def _serve_udp(self):
        while True:
            try:
                packet, peer = self.udp.recvfrom(4096)
                self.udp.sendto(self._answer(packet, "udp"), peer)
            except (ValueError, IndexError, struct.error):
                continue
            except OSError:
                return

    def _serve_tcp(self):
        while True:
            try:
                sock, _ = self.tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_stream, args=(sock,), daemon=True).start()

    def _serve_stream(self, sock):
        with sock, sock.makefile("rb") as stream:
            sock.settimeout(10)
            try:
                while head := stream.read(2):
                    answer = self._answer(stream.read(struct.unpack(">H", head)[0]), "tcp")
                    sock.sendall(struct.pack(">H", len(answer)) + answer)
            except (OSError, ValueError, IndexError, struct.error):
                return
