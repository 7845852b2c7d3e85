"""
Servers of the world that speak no HTTP: what each port does is a function of the test. Records what every
connection got, how it ended, and nothing else.
"""
import hashlib
import socket
import struct
import threading

from lab.accepting import Accepting
from lab.events import Record


class RawConnection:
    def __init__(self, sock, port, record):
        self.sock, self.port, self.record = sock, port, record
        self.start = bytearray()  # the first bytes that came in
        self.length = 0
        self.digest = hashlib.sha256()
        self.end = None  # "eof", "reset"; None: still open
        self.open = True

    def __repr__(self):
        return f"<to port {self.port}: {self.length} bytes {bytes(self.start[:60])!r} end={self.end}>"

    def read(self, size=65536):
        """b"" at the end, whose kind is then known."""
        try:
            data = self.sock.recv(size)
        except ConnectionError:
            self.end = "reset"
            return b""
        if not data:
            self.end = self.end or "eof"  # a reset that a send met is told once
        self.start += data[:max(0, 4096 - len(self.start))]
        self.length += len(data)
        self.digest.update(data)
        self.record.touch()
        return data

    def read_all(self, size=65536):
        while self.read(size):
            pass

    def send(self, data):
        try:
            self.sock.sendall(data)
        except ConnectionError:
            self.end = "reset"

    def end_sending(self):
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class RawServers:
    """@services: a function of a connection for each port."""

    def __init__(self, namespace, services):
        self.connections = Record()
        self.accepting = Accepting()
        self.namespace = namespace

        def bind():
            return [(port, serve, socket.create_server(("0.0.0.0", port))) for port, serve in services.items()]

        for port, serve, sock in namespace.inside(bind):
            self.accepting.listeners.append(sock)
            threading.Thread(target=self._accept, args=(port, serve, sock), daemon=True).start()

        namespace.servers.append(self)

    def settle(self, mark=0):
        """Wait until each connection since then has ended."""
        self.accepting.settle(self.connections, mark, lambda c: c.open)

    def _accept(self, port, serve, sock):
        def take(peer):
            peer.settimeout(60)
            connection = RawConnection(peer, port, self.connections)
            self.connections.add(connection)
            threading.Thread(target=self._serve, args=(serve, connection), daemon=True).start()

        self.accepting.run(sock, take)

    def _serve(self, serve, connection):
        try:
            serve(connection)
        except OSError as error:
            connection.end = connection.end or f"{type(error).__name__}: {error}"
        finally:
            connection.sock.close()
            connection.open = False
            self.connections.touch()

    def close(self):
        self.namespace.servers.remove(self)
        self.accepting.close()
