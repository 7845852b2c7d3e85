"""An audit folder that is made, not run: chained segments and their index, of as many events as a test wants, at any moment."""
import hashlib
import json
import os
import time
import uuid

NONE = "0" * 64


class Chain:
    """Lines of one file, each sealed with the hash of the one before."""

    def __init__(self, path, name, closing):
        self.path, self.name, self.closing = path, name, closing
        self.sequence, self.head = 0, NONE

    def append(self, event):
        """@event: what json.dumps() ends in self.closing."""
        text = json.dumps(event, separators=(",", ":"))
        assert text.endswith(self.closing), text
        bare = f'{text[:-len(self.closing)]},"chain":"{self.name}","prev":"{self.head}"'
        self.head = hashlib.sha256(bare.encode()).hexdigest()
        self.sequence += 1
        with open(self.path, "ab") as file:
            file.write(f'{bare},"hash":"{self.head}"{self.closing}\n'.encode())


class MadeLog:
    """Grows while an exporter reads it. uids: of all events, in their order."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.index = Chain(os.path.join(folder, "index.jsonl"), "index", "}")
        self.segment = None
        self.uids = []
        self.files = 0

    def open(self):
        self.files += 1
        name = f"sb-made{self.files:06d}"
        self.segment = Chain(os.path.join(self.folder, f"20261129T{self.files:06d}Z-{name}.jsonl"), name, "}}}")

    def _entry(self, kind):
        self.index.append({"kind": kind, "segment": os.path.basename(self.segment.path), "of": self.segment.name,
                           "last": self.segment.sequence, "head": self.segment.head, "time": int(time.time() * 1000),
                           "sequence": self.index.sequence + 1})

    def add(self, count, **more):
        """So many events, with more members where a test wants them."""
        for _ in range(count):
            if self.segment is None:
                self.open()
            self.uids.append(str(uuid.uuid4()))
            self.segment.append({
                "class_uid": 4002, "class_name": "HTTP Activity", "category_uid": 4, "activity_id": 3, "type_uid": 400203,
                "time": int(time.time() * 1000), "severity_id": 3, "status_id": 2, "status_code": "deny.path", "action_id": 2,
                "action": "Denied", "container": {"uid": self.segment.name}, "device": {"type_id": 1, "hostname": "gw01"},
                "http_request": {"http_method": "GET", "url": {"hostname": "denied.test", "path": "/\u00e9\"\\"}},
                "metadata": {"version": "1.8.0", "uid": self.uids[-1], "sequence": self.segment.sequence + 1,
                             "product": {"name": "Eclusa", "vendor_name": "Eclusa", "version": "0"}}, **more,
                "unmapped": {"eclusa": {"mode": "enforce"}}})
            if self.segment.sequence == 1:
                self._entry("opened")

    def close(self):
        """This segment has ended: the next event begins another."""
        self._entry("closed")
        self.segment = None
