"""
As many decisions can be on their way as there are slots for them in the log's ring; the next one is refused, on record, and passes when one
of the others has ended.
"""
import contextlib

from lab.alone import Alone, Client, allow, policy
from lab.events import wait_until

RULES = policy(allow("allowed.test:443 GET /**"))
SLOTS, HELD = 64, 56  # 63 can be used, and one sandbox has eight for each that is free


def tunnel(stack, alone):
    client = stack.enter_context(Client(alone))
    client.send("CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n")
    return client, client.head()[0]


def test_one_decision_too_many_is_refused_and_on_record(lab, machine):
    alone = Alone(lab, machine, RULES, "--audit-decisions", str(SLOTS))
    with contextlib.ExitStack() as stack:
        mark = lab.origin.connections.mark()
        clients = [tunnel(stack, alone) for _ in range(HELD)]
        assert {status for _, status in clients} == {200}
        assert tunnel(stack, alone)[1] == 503, "C"
        refused = lab.origin.connections.mark()
        clients[7][0].sock.close()
        wait_until(lambda: tunnel(stack, alone)[1] == 200, "a place that another one left")
        assert lab.origin.connections.since(mark) == lab.origin.connections.since(refused) == [], "U: no hello, nothing left"
    assert alone.end() == 0, alone.report()
    assert len(alone.events("deny.audit-full")) >= 1, "L"
    assert len(alone.events("deny.audit-full")) + HELD + 1 == len([e for e in alone.events() if e["class_uid"] == 4002])
