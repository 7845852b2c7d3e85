"""
Receivers of events over HTTP, as strict as the real ones: whatever those refuse is refused here, and noted as a violation,
which no test expects but those that cause one. What was accepted is recorded in order. Faults are given in a list: each
request takes the next one.
"""
import gzip
import json
import re
import socket
import ssl
import struct
import threading

from lab.events import Record

GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
BODY_MAX = 8 << 20


class Refused(Exception):
    """The receiver's answer to what it does not take. @violation: the sender should have known better."""

    def __init__(self, status, body=b"", violation=None):
        super().__init__(violation or status)
        self.status, self.body, self.violation = status, body, violation


class Fault:
    """
    What goes wrong with one request. @status: that answer, and nothing is taken. Or one of: "reset" before anything is taken;
    "taken-reset", "taken-half": taken, then a reset before or within the answer; "half-close": our side is closed and nothing more comes;
    "hold": taken and answered when release() is called; "wait": the same, but nothing is taken before.
    """

    def __init__(self, kind=None, status=0, fields=(), body=b""):
        self.kind, self.status, self.fields, self.body = kind, status, fields, body
        self.released = threading.Event()

    def release(self):
        self.released.set()


class Request:
    def __init__(self, file):
        line = file.readline(8192).decode("latin-1").rstrip("\r\n")
        if not line:
            raise EOFError
        self.method, self.target, version = line.split(" ")
        assert version == "HTTP/1.1", line
        self.fields = {}
        while True:
            line = file.readline(8192).decode("latin-1").rstrip("\r\n")
            if not line:
                break
            name, _, value = line.partition(":")
            assert name.lower() not in self.fields, f"twice: {name}"
            self.fields[name.lower()] = value.strip()
        length = int(self.fields["content-length"])
        assert length <= BODY_MAX, length
        self.raw = file.read(length)
        if len(self.raw) < length:
            raise EOFError
        self.path, _, self.query = self.target.partition("?")
        self.body = self.raw

    def __repr__(self):
        return f"{self.method} {self.target} {self.fields} {self.raw[:300]!r}"


def words(status, value):
    """A refusal whose body is JSON."""
    return Refused(status, json.dumps(value).encode())


class Receiver:
    """@context: TLS. Listens when start() is called; stop() ends it with all of its connections; what it took stays."""

    path = "/"
    content_types = ("application/x-ndjson",)

    def __init__(self, namespace, port, context=None, authorization=None):
        self.namespace, self.port, self.context, self.authorization = namespace, port, context, authorization
        self.accepted = Record()  # uids, each time one was taken
        self.requests = Record()
        self.violations = []
        self.faults = []
        self.standing = None  # a fault of all requests
        self.poison = set()  # uids that are refused
        self.events = {}  # uid: the last one that was taken
        self.lock = threading.RLock()
        self.listener = None
        self.connections = set()

    # -- life ------------------------------------------------------------------------------------------------
    def start(self):
        def bind():
            made = socket.socket()
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(("127.0.0.1", self.port))
            made.listen(16)
            return made

        self.listener = self.namespace.inside(bind)
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()
        return self

    def stop(self):
        with self.lock:
            listener, self.listener = self.listener, None
            connections = list(self.connections)
        if listener:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, plain):
        connection = plain
        try:
            plain.settimeout(60)
            if self.context:
                connection = self.context.wrap_socket(plain, server_side=True)
            with self.lock:
                self.connections.add(connection)
            file = connection.makefile("rb")
            while self._exchange(connection, Request(file)):
                pass
        except (EOFError, OSError, ssl.SSLError):
            pass
        except (AssertionError, ValueError, KeyError) as error:
            self.violations.append(f"{type(error).__name__}: {error}")
        finally:
            with self.lock:
                self.connections.discard(connection)
            connection.close()

    # -- one request -----------------------------------------------------------------------------------------
    def _next_fault(self):
        with self.lock:
            return self.faults.pop(0) if self.faults else self.standing or Fault()

    def _exchange(self, connection, request):
        """@return whether the connection goes on."""
        fault = self._next_fault() if self.takes_faults(request) else Fault()
        self.requests.add(request)
        if fault.kind == "reset":
            return self._reset(connection)
        if fault.kind == "half-close":
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)  # until the other side goes
            return False
        if fault.kind == "wait":
            fault.released.wait(60)
        if fault.status:
            return self._answer(connection, fault.status, fault.body, fault.fields)
        status, body = self._judge(request)
        if fault.kind == "hold":
            fault.released.wait(60)
        if fault.kind == "taken-half":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"it")
        if fault.kind in ("taken-half", "taken-reset"):
            return self._reset(connection)
        return self._answer(connection, status, body, ())

    def takes_faults(self, _request):
        return True

    @staticmethod
    def _reset(connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    @staticmethod
    def _answer(connection, status, body, fields):
        head = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}", *(f"{n}: {v}" for n, v in fields), "", ""]
        connection.sendall("\r\n".join(head).encode() + body)
        return True

    def _judge(self, request):
        try:
            self._check(request)
            with self.lock:
                return self.take(request)
        except Refused as refused:
            if refused.violation:
                self.violations.append(f"{refused.violation}: {request!r}")
            return refused.status, refused.body

    def _check(self, request):
        if request.method != "POST":
            raise Refused(405, violation="not POST")
        if not self.knows(request.path):
            raise Refused(404, violation="no such path")
        for name in ("expect", "transfer-encoding", "cookie", "proxy-authorization"):
            if name in request.fields:
                raise Refused(417, violation=name)
        if not request.fields.get("user-agent", "").startswith("eclusa-export/"):
            raise Refused(400, violation="user-agent")
        if request.fields.get("content-type") not in self.content_types:
            raise Refused(415, violation="content type")
        if request.fields.get("authorization") != self.authorization:
            raise self.unauthorized(request.fields.get("authorization"))
        coding = request.fields.get("content-encoding")
        if coding not in (None, "gzip"):
            raise Refused(415, violation="content coding")
        if coding:
            request.body = gzip.decompress(request.raw)

    def knows(self, path):
        return path == self.path

    def unauthorized(self, _given):
        return Refused(401)

    def accept(self, uid, event):
        self.events[uid] = event
        self.accepted.add(uid)

    def take(self, request):
        """Of lines of JSON: all or nothing."""
        if not request.body.endswith(b"\n"):
            raise Refused(400, violation="no newline at the end")
        events = [json.loads(line) for line in request.body[:-1].split(b"\n")]
        uids = [event.get("metadata", {}).get("uid") or event["event"]["id"] for event in events]
        if self.poison & set(uids):
            raise Refused(400, b"one of them")
        for uid, event in zip(uids, events):
            self.accept(uid, event)
        return 200, b""


class Collector(Receiver):
    """Splunk's HTTP Event Collector. @acks: "at once", "held" until release(), "never"; None: not enabled for the token."""

    path = "/services/collector/event"
    ack_path = "/services/collector/ack"
    content_types = ("application/json",)

    def __init__(self, namespace, port, token, acks="at once", indexes=("main",), **more):
        super().__init__(namespace, port, authorization=f"Splunk {token}", **more)
        self.acks, self.indexes = acks, indexes
        self.channels = {}  # channel: {number: (indexed, uids)}
        self.indexed = Record()
        self.polls = Record()

    def takes_faults(self, request):
        return request.path != self.ack_path

    def restart(self):
        """Numbers begin anew, and what was not indexed is gone."""
        self.stop()
        with self.lock:
            self.channels = {}
        self.start()

    def knows(self, path):
        return path in (self.path, self.ack_path)

    def unauthorized(self, given):
        if given is None:
            return words(401, {"text": "Token is required", "code": 2})
        return words(403, {"text": "Invalid token", "code": 4})

    def _channel(self, request):
        channel = request.fields.get("x-splunk-request-channel")
        if self.acks is None:
            return None
        if channel is None:
            raise Refused(400, b'{"text":"Data channel is missing","code":10}', violation="no channel")
        if not GUID.match(channel):
            raise Refused(400, b'{"text":"Invalid data channel","code":11}', violation="channel is no GUID")
        return self.channels.setdefault(channel.lower(), {})

    def take(self, request):
        channel = self._channel(request)
        if request.path == self.ack_path:
            return self._acknowledge(channel, request)
        events = self._parse(request.body.decode())
        uids = []
        for number, event in enumerate(events):
            uid = event["event"]["metadata"]["uid"]
            if uid in self.poison:
                raise words(400, {"text": "Invalid data format", "code": 6, "invalid-event-number": number})
            uids.append(uid)
        for uid, event in zip(uids, events):
            self.accept(uid, event)
        if channel is None:
            return 200, b'{"text":"Success","code":0}'
        number = len(channel)
        channel[number] = [False, uids]
        if self.acks == "at once":
            self._index(channel)
        return 200, json.dumps({"text": "Success", "code": 0, "ackId": number}).encode()

    def _parse(self, text):
        """JSON objects one after the other, with nothing between them but blanks."""
        decoder, at, events = json.JSONDecoder(), 0, []
        while at < len(text):
            event, at = decoder.raw_decode(text, at)
            unknown = set(event) - {"time", "host", "source", "sourcetype", "index", "event", "fields"}
            if unknown:
                raise Refused(400, b'{"code":6}', violation=f"unknown members {unknown}")
            if not event.get("event"):
                raise Refused(400, b'{"text":"Event field is required","code":12}', violation="no event")
            if not isinstance(event.get("time"), (int, float)):
                raise Refused(400, b'{"code":6}', violation="time is no number")
            if event.get("index", "main") not in self.indexes:
                raise words(400, {"text": "Incorrect index", "code": 7, "invalid-event-number": len(events)})
            events.append(event)
        if not events:
            raise Refused(400, b'{"text":"No data","code":5}', violation="no data")
        return events

    def _index(self, channel):
        for entry in channel.values():
            if not entry[0]:
                entry[0] = True
                for uid in entry[1]:
                    self.indexed.add(uid)

    def release(self, acks="at once"):
        """What was parsed is indexed, and so is what comes."""
        with self.lock:
            self.acks = acks
            for channel in self.channels.values():
                self._index(channel)

    def _acknowledge(self, channel, request):
        if channel is None:
            raise words(400, {"text": "ACK is disabled", "code": 14})
        asked = json.loads(request.body)
        if set(asked) != {"acks"} or not asked["acks"] or not all(isinstance(n, int) for n in asked["acks"]):
            raise Refused(400, violation="not a question for acknowledgements")
        said = {}
        for number in asked["acks"]:
            done = number in channel and channel[number][0] is True
            if done:
                channel[number] = ["said", []]
            said[str(number)] = done
        self.polls.add(said)
        return 200, json.dumps({"acks": said}).encode()


class Bulk(Receiver):
    """_bulk of Elasticsearch. item_faults: uid: statuses that it gets first, one each time."""

    content_types = ("application/x-ndjson", "application/json")

    def __init__(self, namespace, port, index="logs-eclusa.audit-default", **more):
        super().__init__(namespace, port, **more)
        self.path = f"/{index}/_bulk"
        self.item_faults = {}

    def take(self, request):
        if not request.body.endswith(b"\n"):
            raise Refused(400, violation="The bulk request must be terminated by a newline [\\n]")
        lines = request.body[:-1].split(b"\n")
        if len(lines) % 2:
            raise Refused(400, violation="an action without a document")
        items = [self._item(json.loads(action), json.loads(document)) for action, document in zip(lines[::2], lines[1::2])]
        answer = {"took": 1, "errors": any("error" in item for item in items), "items": [{"create": item} for item in items]}
        if "filter_path=" in request.query:
            paths = request.query.partition("filter_path=")[2].split(",")
            assert set(paths) == {"items.*.status", "items.*.error.type", "items.*.error.reason"}, paths
            del answer["took"], answer["errors"]
            answer["items"] = [{"create": {k: v for k, v in item.items() if k in ("status", "error")}} for item in items]
        return 200, json.dumps(answer).encode()

    def _item(self, action, document):
        if set(action) != {"create"} or set(action["create"]) != {"_id"}:
            raise Refused(400, violation=f"action {action}")
        uid = action["create"]["_id"]
        if "@timestamp" not in document or "version" not in document.get("ecs", {}) or document["event"]["id"] != uid:
            raise Refused(400, violation=f"not a document in ECS: {document}")
        if self.item_faults.get(uid):
            return self._error(uid, self.item_faults[uid].pop(0), "es_rejected_execution_exception")
        if uid in self.poison:
            return self._error(uid, 400, "document_parsing_exception")
        if uid in self.events:
            self.accepted.add(uid)
            return self._error(uid, 409, "version_conflict_engine_exception")
        self.accept(uid, document)
        return {"_index": "i", "_id": uid, "status": 201, "result": "created"}

    @staticmethod
    def _error(uid, status, kind):
        return {"_index": "i", "_id": uid, "status": status, "error": {"type": kind, "reason": "said by the receiver"}}


VALUES = {"stringValue": str, "boolValue": bool, "intValue": str, "doubleValue": (int, float), "arrayValue": dict, "kvlistValue": dict}


def any_value(value):
    """An AnyValue of OTLP's JSON form as it would be without its types; ValueError for what a protobuf parser refuses."""
    if not isinstance(value, dict) or len(value) > 1:
        raise ValueError(f"no AnyValue: {value}")
    for kind, inner in value.items():
        if not isinstance(inner, VALUES[kind]):
            raise ValueError(f"{kind} of {inner!r}")
        if kind == "intValue":
            if not -2**63 <= int(inner) < 2**63:
                raise ValueError(inner)
            return int(inner)
        if kind == "arrayValue":
            return [any_value(v) for v in inner["values"]]
        if kind == "kvlistValue":
            return key_values(inner["values"])
        return inner
    return None


def key_values(pairs):
    for pair in pairs:
        if set(pair) != {"key", "value"} or not isinstance(pair["key"], str):
            raise ValueError(f"no KeyValue: {pair}")
    return {pair["key"]: any_value(pair["value"]) for pair in pairs}


class Otlp(Receiver):
    """Logs of OTLP/HTTP in JSON. reject: how many records of the next requests are rejected, one number each."""

    path = "/v1/logs"
    content_types = ("application/json",)

    def __init__(self, namespace, port, **more):
        super().__init__(namespace, port, **more)
        self.reject = []
        self.final = set()  # bodies that must not come again

    def _answer(self, connection, status, body, fields):  # pylint: disable=arguments-differ
        # Refusals of the sender are tried again, whatever the protocol says: they are no word about the events.
        if status in (400, 413, 500):
            self.final.add(self.requests.items[-1].raw)
        return Receiver._answer(connection, status, body, fields)

    def take(self, request):
        if request.raw in self.final:
            self.violations.append("a request came again after an answer that forbids it")
        try:
            records = [r for r in self._records(json.loads(request.body))]
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(400, b"{}", violation=f"malformed: {error!r}") from error
        if self.poison & {uid for uid, _ in records}:
            raise Refused(400, b'{"code":3,"message":"one of them"}')
        rejected = self.reject.pop(0) if self.reject else 0
        for uid, event in records[rejected:]:
            self.accept(uid, event)
        if rejected:
            self.final.add(request.raw)
            return 200, json.dumps({"partialSuccess": {"rejectedLogRecords": str(rejected), "errorMessage": "too old"}}).encode()
        return 200, b'{"partialSuccess":{}}'

    @staticmethod
    def _only(value, members):
        if set(value) - set(members):
            raise ValueError(f"unknown members {set(value) - set(members)}")
        return value

    def _records(self, root):
        for resource in self._only(root, ["resourceLogs"])["resourceLogs"]:
            self._only(resource, ["resource", "scopeLogs", "schemaUrl"])
            assert key_values(resource["resource"]["attributes"])["service.name"]
            for scope in resource["scopeLogs"]:
                self._only(scope, ["scope", "logRecords", "schemaUrl"])
                for record in scope["logRecords"]:
                    yield self._record(record)

    def _record(self, record):
        self._only(record, ["timeUnixNano", "observedTimeUnixNano", "severityNumber", "severityText", "body", "attributes"])
        for name in ("timeUnixNano", "observedTimeUnixNano"):
            if not isinstance(record[name], str) or not 0 < int(record[name]) < 2**64:
                raise ValueError(record[name])
        if record["severityNumber"] not in range(1, 25) or isinstance(record["severityNumber"], bool):
            raise ValueError(record["severityNumber"])
        event = any_value(record["body"])
        uid = key_values(record["attributes"])["log.record.uid"]
        if event["metadata"]["uid"] != uid:
            raise ValueError(uid)
        return uid, event
