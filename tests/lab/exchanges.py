"""Raw exchanges through the proxy: how a test writes them down, and what their client saw."""
import base64
import json
import os

CLIENT = os.path.join(os.path.dirname(__file__), "raw_client.py")


def send(data):
    return {"do": "send", "data": base64.b64encode(data if isinstance(data, bytes) else data.encode("latin-1")).decode()}


def connect(target):
    return {"do": "connect", "target": target}


def socks(host, port=443, **more):
    """SOCKS5. @host: a name as str, or an address as bytes."""
    kind = 3 if isinstance(host, str) else 1 if len(host) == 4 else 4
    data = host.encode("latin-1") if isinstance(host, str) else host
    return {"do": "socks", "host": base64.b64encode(data).decode(), "port": port, "kind": kind, **more}


def tls(sni, verify=True, **more):
    return {"do": "tls", "sni": sni, "verify": verify, **more}


def until(mark):
    return {"do": "until", "mark": base64.b64encode(mark).decode()}


def trickle(data):
    return {"do": "trickle", "data": base64.b64encode(data if isinstance(data, bytes) else data.encode("latin-1")).decode()}


def response(method="GET"):
    return {"do": "response", "method": method}


def fetch_beside(host, path):
    """A plain GET on a connection of its own: waits for what its answer waits for."""
    return {"do": "beside", "host": host, "path": path}


HEAD = {"do": "head"}
END = {"do": "end"}
SHUT = {"do": "shut"}
ABORT = {"do": "abort"}


def tunnel(host, port=443, sni=False, verify=True):
    """The steps of an honest client up to the first request inside."""
    return [connect(f"{host}:{port}"), tls(host if sni is False else sni, verify)]


def fetch(host, path="/", port=443, verify=True):
    """An honest client's GET over TLS."""
    return [*tunnel(host, port, verify=verify),
            send(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"), response(), END]


def exchange(name, *steps):
    flat = [s for step in steps for s in (step if isinstance(step, list) else [step])]
    return {"id": name, "steps": flat}


def captured(name, host, port, *steps):
    """On a connection that is opened to the host itself."""
    return {**exchange(name, *steps), "to": [host, port]}


class Step:
    def __init__(self, raw):
        self.do = raw["do"]
        self.data = base64.b64decode(raw.get("data", ""))
        self.body = base64.b64decode(raw.get("body", ""))
        self.status = raw.get("status")
        self.end, self.error, self.alert, self.ms = raw.get("end"), raw.get("error"), raw.get("alert"), raw["ms"]
        self.names, self.alpn = raw.get("names", []), raw.get("alpn")

    def __repr__(self):
        parts = [self.do, f"{self.ms}ms"]
        parts += [f"{key}={value}" for key, value in vars(self).items()
                  if key in ("status", "end", "error", "alert") and value is not None]
        if self.data or self.body:
            parts.append(repr(bytes((self.data + self.body)[:600])))
        return "<" + " ".join(parts) + ">"


class Seen:
    """One exchange as its client saw it."""

    def __init__(self, raw):
        self.id, self.port, self.error = raw["id"], raw.get("port"), raw.get("error")
        self.steps = [Step(step) for step in raw["steps"]]

    def __repr__(self):
        return f"{self.id} from port {self.port}: {self.error or ''} {self.steps}"

    @property
    def statuses(self):
        return [step.status for step in self.steps if step.status is not None]

    @property
    def status(self):
        """The last one."""
        return self.statuses[-1] if self.statuses else None

    @property
    def last(self):
        return self.steps[-1]

    def of(self, kind):
        return [step for step in self.steps if step.do == kind]

    @property
    def received(self):
        return b"".join(step.data + step.body for step in self.steps)

    @property
    def ended(self):
        """Whether the proxy ended the connection, in whatever way."""
        return any(step.end in ("eof", "reset") for step in self.steps)

    def denial(self):
        """The JSON body of the proxy's last refusal, or None."""
        for step in reversed(self.steps):
            if step.status and step.status >= 400 and step.body:
                try:
                    return json.loads(step.body)
                except ValueError:
                    return None
        return None
