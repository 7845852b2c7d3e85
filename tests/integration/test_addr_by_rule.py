"""Two rules for one host that differ in addr=: the tunnel is dialled by any of them, each request is judged by its own."""
from lab.exchanges import END, exchange, response, send, tunnel
from lab.oracles import Batch
from lab.world import ORIGIN

POLICY = f"""policy 1

[profile bench]
allow allowed.test GET /a/** addr={ORIGIN}/32 id=opens
allow allowed.test GET /b/** id=public-only
"""


def get(path):
    return [*tunnel("allowed.test"), send(f"GET {path} HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n"), response(), END]


def test_each_request_needs_a_rule_that_opens_the_address(lab):
    policy = lab.write("addr-by-rule.allow", POLICY)
    batch = Batch(lab, [exchange("opened", *get("/a/x")), exchange("not-opened", *get("/b/x"))], policy=policy)
    batch.assert_status("opened", 200)
    batch.assert_status("not-opened", 403)
    assert {r.target for r in batch.requests} == {"/a/x"}, "U"
    codes = [e["status_code"] for e in batch.run.events if e.get("http_request", {}).get("url", {}).get("path") == "/b/x"]
    assert codes == ["deny.address-private"], "L"
