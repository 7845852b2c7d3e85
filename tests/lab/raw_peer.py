"""
Runs inside the sandbox, once per exchange: `python3 raw_peer.py TARGET STEP...`. CONNECT to TARGET through the proxy, then the
steps; prints a JSON object of what was seen. Needs the standard library only.

  banner N         read N bytes before anything is said
  hello NAME V     a ClientHello as OpenSSL makes it, with this name ("-": none), of at most TLS 1.V
  ech              to the last hello's bytes, before they are sent: an encrypted_client_hello extension
  say TEXT         these bytes, as Python writes them
  body N           N bytes of a pattern, as fast as they are taken
  shut             end the sending direction
  rest             read until the end: its kind, length and digest
  slow N           like rest, N bytes at a time through a small buffer
  abort            reset
"""
import ast
import hashlib
import json
import os
import socket
import ssl
import struct
import sys
import urllib.parse

BLOCK = bytes(range(256)) * 256


def hello_bytes(name, minor):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_3 if minor == "3" else ssl.TLSVersion.TLSv1_2
    out = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=None if name == "-" else name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def with_ech(record):
    """One more extension at the end of the hello's list; one record, lengths below 64 KiB."""
    message = record[5:]
    at = 4 + 34
    at += 1 + message[at]
    at += 2 + int.from_bytes(message[at:at + 2], "big")
    at += 1 + message[at]
    extensions = message[at + 2:] + struct.pack(">HH", 0xfe0d, 5) + b"\0\0\1\0\1"
    body = message[4:at] + struct.pack(">H", len(extensions)) + extensions
    message = b"\1" + len(body).to_bytes(3, "big") + body
    return record[:3] + struct.pack(">H", len(message)) + message


class Peer:
    def __init__(self, target):
        proxy = urllib.parse.urlsplit(os.environ["http_proxy"])
        self.sock = socket.create_connection((proxy.hostname, proxy.port), 25)
        self.seen = {"port": self.sock.getsockname()[1], "end": None}
        self.sock.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = self.sock.recv(1)
            if not byte:
                break
            head += byte
        self.seen["status"] = int(head.split(b" ")[1]) if head else None
        self.hello = b""

    def read_rest(self, size):
        digest, length, start = hashlib.sha256(), 0, b""
        try:
            while data := self.sock.recv(size):
                digest.update(data)
                length += len(data)
                start += data[:max(0, 200 - len(start))]
            self.seen["end"] = "eof"
        except ConnectionError:
            self.seen["end"] = "reset"
        except TimeoutError:
            self.seen["end"] = "timeout"
        self.seen.update(length=length, digest=digest.hexdigest(), start=start.decode("latin-1"))

    def flush_hello(self):
        if self.hello:
            self.sock.sendall(self.hello)
            self.hello = b""

    def step(self, what, words):
        if what == "hello":
            self.flush_hello()
            self.hello = hello_bytes(next(words), next(words))
            return
        if what == "ech":
            self.hello = with_ech(self.hello)
            return
        self.flush_hello()
        if what == "banner":
            want, got = int(next(words)), b""
            while len(got) < want and (data := self.sock.recv(want - len(got))):
                got += data
            self.seen["banner"] = got.decode("latin-1")
        elif what == "say":
            self.sock.sendall(ast.literal_eval("b'" + next(words) + "'"))
        elif what == "body":
            length = int(next(words))
            for at in range(0, length, len(BLOCK)):
                self.sock.sendall(BLOCK[:min(len(BLOCK), length - at)])
        elif what == "shut":
            self.sock.shutdown(socket.SHUT_WR)
        elif what == "rest":
            self.read_rest(65536)
        elif what == "slow":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            self.read_rest(int(next(words)))
        elif what == "abort":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.sock.close()
        else:
            raise ValueError(what)


def run(words):
    peer = Peer(next(words))
    try:
        if peer.seen["status"] == 200:
            for what in words:
                peer.step(what, words)
            if peer.hello:
                peer.flush_hello()
        else:
            peer.read_rest(65536)
    except ConnectionError as error:
        peer.seen["error"] = f"{type(error).__name__}"
        if peer.seen["end"] is None:
            peer.seen["end"] = "reset"
    return peer.seen


if __name__ == "__main__":
    # Several exchanges, one after another, are parted by "+".
    seen, words = [], []
    for word in [*sys.argv[1:], "+"]:
        if word != "+":
            words.append(word)
            continue
        seen.append(run(iter(words)))
        words = []
    json.dump(seen, sys.stdout)
