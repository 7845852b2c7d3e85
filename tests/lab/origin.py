"""
The world's servers on one address: HTTP on 80, HTTPS on 443, for allowed and denied names alike, and a port whose
server speaks first. Records each connection's bytes before and after TLS. What a path answers is scripted
by the test; anything else gets a short text that names method, host and path.
"""
import socket
import ssl
import threading

from lab.accepting import Accepting
from lab.events import Record

PLAIN, SECURE, BANNER = 80, 443, 2222
BANNER_TEXT = b"SSH-2.0-lab-banner\r\n"
READ_BYTES = 65536


class Request:
    def __init__(self, raw, body):
        self.raw = raw  # the head, blank line included
        self.body = body
        line, *fields = raw.decode("latin-1").split("\r\n")[:-2]
        self.method, self.target, self.version = (line.split(" ", 2) + ["", ""])[:3]
        self.fields = [tuple(part.strip() for part in field.split(":", 1)) for field in fields if ":" in field]

    def get(self, name):
        """All values of a field."""
        return [value for key, value in self.fields if key.lower() == name.lower()]

    @property
    def host(self):
        return ",".join(self.get("host"))

    def __repr__(self):
        return f"<{self.method} {self.host} {self.target}>"


class Connection:
    """One accepted connection. The record is complete once `open` is false."""

    def __init__(self, sock, record):
        self.sock, self.record = sock, record
        self.local, self.peer = (
            (name[0].removeprefix("::ffff:"), name[1]) for name in (sock.getsockname(), sock.getpeername()))
        self.raw = bytearray()      # what came in, before TLS
        self.plain = bytearray()    # what came in, after TLS
        self.requests = []
        self.sni = self.tls_version = self.error = None
        self.open = True
        self.acting = False  # in a script of a test, which may hold it for long
        self.tls = None
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()

    def __repr__(self):
        return (f"<to {self.local[0]}:{self.local[1]} sni={self.sni} {len(self.raw)} raw {len(self.plain)} plain "
                f"{self.requests} error={self.error}>")

    def _receive(self):
        data = self.sock.recv(READ_BYTES)
        self.raw += data
        self.record.touch()
        return data

    def _flush(self):
        data = self.outgoing.read()
        if data:
            self.sock.sendall(data)

    def _drive(self, step):
        """Repeat a TLS step until it needs no more input."""
        while True:
            try:
                value = step()
                self._flush()
                return value
            except ssl.SSLWantReadError:
                self._flush()
                data = self._receive()
                if data:
                    self.incoming.write(data)
                else:
                    self.incoming.write_eof()

    def start_tls(self, certificates):
        def choose(tls, name, _context):
            self.sni = name
            tls.context = certificates.context(name)

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.default_path())
        context.set_alpn_protocols(["http/1.1"])
        context.sni_callback = choose
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self._drive(self.tls.do_handshake)
        self.tls_version = self.tls.version()

    def read(self):
        data = self._drive(lambda: self.tls.read(READ_BYTES)) if self.tls else self._receive()
        self.plain += data
        self.record.touch()
        return data

    def send(self, data):
        if self.tls:
            self.tls.write(data)
            self._flush()
        else:
            self.sock.sendall(data)

    def act(self, action, request):
        self.acting = True
        try:
            action(request, self)
        finally:
            self.acting = False

    def close(self):
        """At once: no close_notify, so that only lengths tell a whole body from a cut one."""
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class _Parser:
    """Just enough of HTTP/1.1 to know where a request of a proxy that writes well ends."""

    def __init__(self, connection):
        self.connection, self.data = connection, b""

    def _more(self):
        data = self.connection.read()
        if not data:
            raise EOFError
        self.data += data

    def _take_until(self, mark):
        while mark not in self.data:
            self._more()
        taken, self.data = self.data.split(mark, 1)
        return taken + mark

    def _take(self, length):
        while len(self.data) < length:
            self._more()
        taken, self.data = self.data[:length], self.data[length:]
        return taken

    def _chunks(self):
        body = b""
        while True:
            size = int(self._take_until(b"\r\n").split(b";")[0], 16)
            if size == 0:
                while self._take_until(b"\r\n") != b"\r\n":
                    pass
                return body
            body += self._take(size)
            self._take(2)

    def request(self, on_head):
        raw = self._take_until(b"\r\n\r\n")
        request = Request(raw, b"")
        on_head(request)
        if [v.lower() for v in request.get("transfer-encoding")] == ["chunked"]:
            request.body = self._chunks()
        elif request.get("content-length"):
            request.body = self._take(int(request.get("content-length")[0]))
        return request


def answer(status, body=b"", fields=()):
    """A whole response with a length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Origin:
    def __init__(self, namespace, certificates):
        self.certificates = certificates
        self.connections = Record()
        self.scripts = {}
        self.early = {}
        self.accepting = Accepting()
        namespace.servers.append(self)

        def bind():
            socks = []
            for port in (PLAIN, SECURE, BANNER):
                sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)  # both families, every address
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind(("::", port))
                sock.listen(256)
                socks.append((port, sock))
            return socks

        for port, sock in namespace.inside(bind):
            self.accepting.listeners.append(sock)
            threading.Thread(target=self._accept, args=(port, sock), daemon=True).start()

    def close(self):
        self.accepting.close()
        for connection in self.connections.since():
            connection.close()

    def on(self, path, action):
        """@action: the bytes of a response, or a function of (request, connection) that sends what it likes."""
        self.scripts[path] = action

    def on_head(self, path, action):
        """@action: a function of (request, connection), called before the request's body is read; raise EOFError to end there."""
        self.early[path] = action

    def requests(self, mark=0):
        """Every request since a mark of `connections`."""
        return [request for connection in self.connections.since(mark) for request in connection.requests]

    def settle(self, mark=0):
        """Wait until each connection since then has ended, or is in a script, which may hold it for long."""
        self.accepting.settle(self.connections, mark, lambda c: c.open and not c.acting)

    def _accept(self, port, sock):
        def take(peer):
            try:
                peer.settimeout(60)
                connection = Connection(peer, self.connections)
            except OSError:  # it has ended already
                peer.close()
                return
            self.connections.add(connection)
            threading.Thread(target=self._serve, args=(port, connection), daemon=True).start()

        self.accepting.run(sock, take)

    def _serve(self, port, connection):
        try:
            if port == BANNER:
                connection.send(BANNER_TEXT)
                while connection.read():
                    pass
                return
            if port == SECURE:
                connection.start_tls(self.certificates)
            parser = _Parser(connection)
            while True:
                self._respond(parser, connection)
        except (EOFError, OSError, ValueError, ssl.SSLError) as error:
            connection.error = None if isinstance(error, EOFError) else f"{type(error).__name__}: {error}"
        finally:
            connection.sock.close()
            connection.open = False  # last: who waits for it finds the end sent
            self.connections.touch()

    def _respond(self, parser, connection):
        def arrived(request):
            connection.requests.append(request)
            self.connections.touch()
            early = self.early.get(request.target.split("?")[0])
            if early:
                connection.act(early, request)

        request = parser.request(arrived)
        path = request.target.split("?")[0]
        action = self.scripts.get(path)
        if action is None:
            action = answer("200 OK", f"{request.method} {request.host} {request.target}\n".encode(),
                            ("Content-Type: text/plain",))
            if request.method == "HEAD":
                action = action.split(b"\r\n\r\n")[0] + b"\r\n\r\n"
        if callable(action):
            connection.act(action, request)
        else:
            connection.send(action)
