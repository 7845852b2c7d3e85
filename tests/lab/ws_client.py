"""
Runs inside the sandbox: `python3 ws_client.py SPEC`, a JSON list of WebSocket exchanges; prints a JSON list of what each saw.
Needs the standard library only.

  {"id", "host", "path", "port", "plain": absolute-form http, "head": more header lines, "frames": [length...],
   "glue": the first frame goes with the request, "end": "close" | "shut" | "abort" | "wait"}
"""
import base64
import hashlib
import json
import os
import socket
import ssl
import struct
import sys
import urllib.parse

KEY = base64.b64encode(bytes(range(16))).decode()


def frame(payload, opcode=2):
    """A client's: masked."""
    mask = b"\1\2\3\4"
    length = len(payload)
    head = bytes([0x80 | opcode]) + (bytes([0x80 | length]) if length < 126 else bytes([0xfe]) + struct.pack(">H", length)
                                     if length < 65536 else bytes([0xff]) + struct.pack(">Q", length))
    masked = bytes(a ^ b for a, b in zip(payload, mask * (length // 4 + 1)))
    return head + mask + masked


class Peer:
    def __init__(self, spec):
        proxy = urllib.parse.urlsplit(os.environ["http_proxy"])
        self.sock = socket.create_connection((proxy.hostname, proxy.port), 25)
        self.port, self.data, self.end = self.sock.getsockname()[1], b"", None
        if not spec.get("plain"):
            target = f"{spec['host']}:{spec.get('port', 443)}"
            self.sock.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
            assert b" 200 " in self.take_until(b"\r\n\r\n")
            self.sock = ssl.create_default_context().wrap_socket(
                self.sock, server_hostname=spec["host"], suppress_ragged_eofs=False)

    def more(self):
        """Read once; False at the end, whose kind is then known."""
        if self.end:
            return False
        try:
            data = self.sock.recv(65536)
        except (ConnectionError, ssl.SSLEOFError):
            self.end = "cut"
            return False
        except TimeoutError:
            self.end = "timeout"
            return False
        if not data:
            self.end = "eof"
        self.data += data
        return bool(data)

    def take_until(self, mark):
        while mark not in self.data and self.more():
            pass
        at = self.data.find(mark) + len(mark) if mark in self.data else len(self.data)
        taken, self.data = self.data[:at], self.data[at:]
        return taken

    def take(self, length):
        while len(self.data) < length and self.more():
            pass
        taken, self.data = self.data[:length], self.data[length:]
        return taken

    def frame(self):
        head = self.take(2)
        if len(head) < 2:
            return None
        length = head[1] & 127
        if length > 125:
            length = int.from_bytes(self.take(2 if length == 126 else 8), "big")
        return self.take(length)


def run(spec):
    peer = Peer(spec)
    seen = {"id": spec["id"], "port": peer.port, "frames": []}
    where = f"http://{spec['host']}{spec['path']}" if spec.get("plain") else spec["path"]
    upgrade = spec.get("head", f"Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: {KEY}\r\n"
                               "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: chat\r\n")
    request = f"{spec.get('method', 'GET')} {where} HTTP/1.1\r\nHost: {spec['host']}\r\n{upgrade}\r\n".encode()
    payloads = [os.urandom(length) for length in spec.get("frames", [])]
    try:
        glued = frame(payloads[0]) if spec.get("glue") else b""
        peer.sock.sendall(request + glued)
        head = peer.take_until(b"\r\n\r\n")
        seen["status"], seen["head"] = int(head.split(b" ")[1]) if b" " in head else None, head.decode("latin-1")
        if seen["status"] == 101:
            greeting = peer.frame()
            seen["greeting"] = greeting and greeting.decode("latin-1")
            for at, payload in enumerate(payloads):
                if at > 0 or not glued:
                    peer.sock.sendall(frame(payload))
                seen["frames"].append(peer.frame() == payload)
        if spec.get("end") == "close":
            peer.sock.sendall(frame(b"\x03\xe8", 8))
            seen["close"] = (peer.frame() or b"").hex()
        elif spec.get("end") == "abort":
            peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.sock.close()
            return seen
        while peer.more():
            pass
        seen["rest"], seen["digest"] = peer.data[:2000].decode("latin-1"), hashlib.sha256(peer.data).hexdigest()
    except OSError as error:
        seen["error"] = f"{type(error).__name__}: {error}"
        peer.end = peer.end or "cut"
    seen["end"] = peer.end
    return seen


if __name__ == "__main__":
    with open(sys.argv[1], encoding="ascii") as file:
        json.dump([run(spec) for spec in json.load(file)], sys.stdout)
