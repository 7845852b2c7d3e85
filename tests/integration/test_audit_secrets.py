"""
What never stands in the log, whether a request is well formed or not: values behind '?' and '#', what stands before '@', and the values of
header fields. The twin: host and path of the same requests do stand there.
"""
import json

from lab.exchanges import END, exchange, response, send, tunnel
from lab.oracles import Batch

SECRET = "hunter2SECRETvalue"
QUERY = f"?token={SECRET}"

# Request lines with {at}: scheme and host where the door is plain.
LINES = {
    "query": f"GET {{at}}/v1/x{QUERY} HTTP/1.1",
    "query-version": f"GET {{at}}/v1/x{QUERY} HTTP/9.9",
    "query-no-version": f"GET {{at}}/v1/x{QUERY}",
    "query-blank-behind": f"GET {{at}}/v1/x{QUERY} HTTP/1.1 ",
    "query-two-blanks": f"GET  {{at}}/v1/x{QUERY} HTTP/1.1",
    "query-without-path": f"GET http://allowed.test{QUERY} HTTP/1.1",
    "query-bad-port": f"GET http://allowed.test:80x/v1/x{QUERY} HTTP/1.1",
    "query-bad-escape": f"GET {{at}}/v1/%zz{QUERY} HTTP/1.1",
    "query-hidden-dots": f"GET {{at}}/v1/%2e%2e/x{QUERY} HTTP/1.1",
    "query-with-at": f"GET {{at}}/v1/x?mail={SECRET}@{SECRET} HTTP/9.9",
    "fragment": f"GET {{at}}/v1/x#{SECRET} HTTP/1.1",
    "userinfo": f"GET http://user:{SECRET}@denied.test/ HTTP/1.1",
    "userinfo-slash": f"GET http://user:pa/{SECRET}@denied.test/ HTTP/1.1",
    "userinfo-question": f"GET http://user:pa?{SECRET}@denied.test/ HTTP/1.1",
    "userinfo-encoded-at": f"GET http://user:{SECRET}%40denied.test/ HTTP/1.1",
    "userinfo-backslash": f"GET http://user:{SECRET}\\@denied.test/ HTTP/1.1",
    "userinfo-other-scheme": f"GET ftp://user:{SECRET}@denied.test/ HTTP/1.1",
    "userinfo-connect": f"CONNECT user:{SECRET}@denied.test:443 HTTP/1.1",
}
FIELDS = {
    "fields": [f"Authorization: Bearer {SECRET}", f"Cookie: s={SECRET}", f"Referer: http://x.test/?{SECRET}",
               f"Proxy-Authorization: Basic {SECRET}"],
    "host-userinfo": [f"Host: user:{SECRET}@denied.test"],
    "blank-before-colon": ["X : y"],
    "nul": ["X: a\0b"],
}


def request(line, fields=()):
    hosts = [] if any(f.startswith("Host:") for f in fields) else ["Host: allowed.test"]
    return "\r\n".join([line, *hosts, "Connection: close", *fields]) + "\r\n\r\n"


def texts():
    """id -> request with {at}"""
    made = {name: request(line) for name, line in LINES.items()}
    for name, fields in FIELDS.items():
        made[name] = request(f"GET {{at}}/v1/x{QUERY} HTTP/1.1", fields)
    return made


def test_no_secret_of_a_request_stands_in_the_log(lab):
    exchanges = []
    for name, text in texts().items():
        exchanges.append(exchange(f"plain-{name}", send(text.replace("{at}", "http://allowed.test")), response(), END))
        exchanges.append(exchange(f"tunnel-{name}", *tunnel("allowed.test"), send(text.replace("{at}", "")), response(), END))
    batch = Batch(lab, exchanges)
    events = batch.run.events
    leaks = [e for e in events if SECRET in json.dumps(e)]
    assert leaks == [], json.dumps(leaks[0])
    assert SECRET not in json.dumps(batch.run.result["denials"]) and SECRET not in batch.run.stderr
    paths = {e.get("http_request", {}).get("url", {}).get("path") for e in events}
    hosts = {e.get("dst_endpoint", {}).get("hostname") for e in events}
    assert "/v1/x" in paths and "allowed.test" in hosts, "the twin: host and path are on record"
    assert len(events) > len(exchanges), "each request is on record"
