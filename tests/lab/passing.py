"""Connections through the proxy alone whose bytes pass, of each kind, and servers of the world that send everything back."""
import base64
import hashlib

from lab.alone import Client
from lab.raw_server import RawServers
from lab.world import ORIGIN

KEY = base64.b64encode(bytes(range(16))).decode()
ACCEPT = base64.b64encode(hashlib.sha1((KEY + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
PORT = 2301  # of raw.test


def echo_servers(lab):
    """raw.test on PORT, spliced.test and allowed.test/ws."""
    def echo(connection):
        connection.send(b"hello")
        while data := connection.read():
            connection.send(data)

    def switch(_request, connection):
        connection.send(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        f"Sec-WebSocket-Accept: {ACCEPT}\r\n\r\n".encode() + b"hello")
        while data := connection.read():
            connection.send(data)

    lab.dns.zone["raw.test"] = lab.dns.zone["spliced.test"] = [ORIGIN]
    lab.origin.on("/ws", switch)
    return RawServers(lab.world, {PORT: echo})


class Passing:
    """A connection of one kind whose bytes come back."""

    def __init__(self, lab, alone, kind):
        self.lab, self.kind, self.client = lab, kind, Client(alone)
        if kind == "tcp":
            self.client.send(f"CONNECT raw.test:{PORT} HTTP/1.1\r\nHost: raw.test:{PORT}\r\n\r\n")
            assert self.client.head()[0] == 200
        elif kind == "splice":
            assert self.client.tunnel("spliced.test", ca=lab.certificates.ca_file) is self.client
            self.echo(b"x")
        else:
            self.client.tunnel("allowed.test")
            self.client.ask("allowed.test", "/ws", "GET", "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                            f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n")
            assert self.client.head()[0] == 101
        if kind != "splice":
            assert self.client.take(5) == b"hello"

    def echo(self, data):
        """Bytes go there and come back."""
        if self.kind == "splice":
            self.client.ask("spliced.test", f"/{len(data)}", "POST", f"Content-Length: {len(data)}\r\n")
            self.client.send(data)
            assert self.client.answer()[0] == 200
        else:
            self.client.send(data)
            assert self.client.take(len(data)) == data

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.sock.close()
