"""
The Sigma rules that are shipped: well-formed by the specification's required fields, about members that our events have, and each
matches the events that it is for, and not their twins.
"""
import glob
import os
import re
import uuid

import pytest
import yaml

from lab.eclusa import ROOT

FOLDER = os.path.join(ROOT, "packaging", "sigma")
STATUSES = {"stable", "test", "experimental", "deprecated", "unsupported"}
LEVELS = {"informational", "low", "medium", "high", "critical"}
RULE_KEYS = {"title", "id", "name", "status", "description", "references", "author", "date", "tags", "logsource", "detection",
             "correlation", "falsepositives", "level"}
TIMESPAN = re.compile(r"(\d+)([smhd])\Z")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def documents():
    for path in sorted(glob.glob(os.path.join(FOLDER, "*.yml"))):
        with open(path, encoding="utf-8") as file:
            for document in yaml.safe_load_all(file):
                yield os.path.basename(path), document


RULES = list(documents())


# --- a small evaluator ---

def member(event, path):
    """@return (whether it is there, the value)"""
    for key in path.split("."):
        if not isinstance(event, dict) or key not in event:
            return False, None
        event = event[key]
    return True, event


def same(value, wanted):
    if isinstance(wanted, str) and isinstance(value, str):
        pattern = re.escape(wanted.lower()).replace(r"\*", ".*").replace(r"\?", ".")
        return re.fullmatch(pattern, value.lower(), re.S) is not None
    return type(value) is type(wanted) and value == wanted


def item_matches(event, key, wanted):
    path, *modifiers = key.split("|")
    there, value = member(event, path)
    if modifiers == ["exists"]:
        return there is wanted
    wanted = wanted if isinstance(wanted, list) else [wanted]
    if modifiers == ["startswith"]:
        wanted = [text + "*" for text in wanted]
    else:
        assert modifiers == [], f"{key}: the evaluator of this test does not know the modifier"
    return there and any(same(value, one) for one in wanted)


def selection_matches(event, selection):
    return all(item_matches(event, key, wanted) for key, wanted in selection.items())


def condition_holds(condition, found):
    """'a', '1 of them', and such with not, and, or."""
    if condition == "1 of them":
        return any(found.values())
    words = condition.split()
    assert all(word in ("and", "or", "not") or word in found for word in words), condition
    # Words of a rule in this repository, checked to be names and operators only.
    return eval(" ".join(word if word in ("and", "or", "not") else f"found[{word!r}]" for word in words), {"found": found})


def matches(rule, event):
    detection = dict(rule["detection"])
    condition = detection.pop("condition")
    return condition_holds(condition, {name: selection_matches(event, s) for name, s in detection.items()})


def correlates(rule, events):
    """Whether an event_count correlation fires on (seconds, event) pairs."""
    correlation = rule["correlation"]
    count, unit = TIMESPAN.match(correlation["timespan"]).groups()
    span = int(count) * SECONDS[unit]
    base = {r["name"]: r for _, r in RULES if "name" in r}
    groups = {}
    for at, event in sorted(events, key=lambda pair: pair[0]):
        if any(matches(base[name], event) for name in correlation["rules"]):
            groups.setdefault(tuple(member(event, key)[1] for key in correlation["group-by"]), []).append(at)
    most = max((sum(begin <= at < begin + span for at in times) for times in groups.values() for begin in times), default=0)
    return most >= correlation["condition"]["gte"]


# --- well-formed ---

def test_five_subjects():
    names = {path for path, _ in RULES}
    assert names == {f"eclusa-{name}.yml" for name in ("metadata-address", "sni-mismatch", "denied-burst", "audit-gap", "policy-changed")}


@pytest.mark.parametrize("path,rule", RULES, ids=[rule["title"] for _, rule in RULES])
def test_has_what_the_specification_requires(path, rule):
    assert set(rule) <= RULE_KEYS, path
    assert 0 < len(rule["title"]) <= 256
    assert str(uuid.UUID(rule["id"])) == rule["id"]
    assert rule["status"] in STATUSES and rule["level"] in LEVELS
    assert ("detection" in rule) != ("correlation" in rule)
    if "detection" in rule:
        assert rule["logsource"] == {"product": "eclusa", "service": "audit"}
        assert isinstance(rule["detection"]["condition"], str)
        assert len(rule["detection"]) > 1
    else:
        assert rule["correlation"]["type"] == "event_count"
        assert TIMESPAN.match(rule["correlation"]["timespan"])
        assert rule["correlation"]["rules"] and rule["correlation"]["group-by"]
    for tag in rule["tags"]:
        assert re.fullmatch(r"attack\.[a-z0-9.-]+", tag), tag


def test_ids_are_unique():
    ids = [rule["id"] for _, rule in RULES]
    assert len(ids) == len(set(ids))


def test_codes_are_ours():
    """Every reason that a rule names is one that the code has."""
    with open(os.path.join(ROOT, "common", "reason.c"), encoding="utf-8") as file:
        codes = set(re.findall(r'\{"([a-z]+\.[a-z-]+)"', file.read()))
    named = set()
    for _, rule in RULES:
        for selection in rule.get("detection", {}).values():
            if isinstance(selection, dict):
                for key, wanted in selection.items():
                    if key in ("status_code", "unmapped.eclusa.would", "metadata.event_code"):
                        named |= set(wanted if isinstance(wanted, list) else [wanted])
    assert named and named <= codes, named - codes


# --- what they match ---

def rule_of(name):
    return next(rule for _, rule in RULES if rule.get("name") == name)


def decision(code, would=None, sandbox="sb-1"):
    denied = code.startswith("deny.")
    event = {"class_uid": 4002, "status_code": code, "action_id": 2 if denied else 1, "metadata": {"event_code": code},
             "src_endpoint": {"uid": sandbox}, "unmapped": {"eclusa": {"mode": "enforce"}}}
    if would:
        event["unmapped"]["eclusa"]["would"] = would
    return event


def recovered(event):
    event["metadata"]["event_code"] = "audit.recovered"
    return event


def policy(code, result=True):
    event = {"class_uid": 3004, "status_code": code, "metadata": {"event_code": code}, "entity": {"uid": "a607"}}
    if result:
        event["entity_result"] = {"uid": "b718"}
    return event


CASES = {
    "eclusa_metadata_address": (
        [decision("deny.address-metadata"), decision("observe.would-deny", would="deny.address-metadata")],
        [decision("deny.address-private"), decision("allow.rule"), decision("observe.would-deny", would="deny.default")]),
    "eclusa_sni_mismatch": (
        [decision("deny.sni-mismatch"), decision("deny.host-mismatch"), decision("deny.address-mismatch"),
         decision("observe.would-deny", would="deny.sni-mismatch")],
        [decision("deny.no-sni"), decision("deny.default"), decision("allow.splice")]),
    "eclusa_denied": (
        [decision("deny.default"), decision("deny.path"), decision("deny.packet")],
        [decision("allow.rule"), decision("error.timeout"), decision("deny.audit-full"),
         {"class_uid": 6002, "status_code": "deny.audit-full"}]),
    "eclusa_audit_gap": (
        [{"class_uid": 6002, "status_code": "audit.lost"}, {"class_uid": 6002, "status_code": "deny.audit-full"},
         recovered(decision("allow.rule"))],
        [{"class_uid": 6002, "status_code": "audit.checkpoint", "metadata": {"event_code": "audit.checkpoint"}}, decision("deny.limit")]),
    "eclusa_policy_changed": (
        [policy("policy.loaded"), policy("policy.rejected", result=False)],
        [policy("policy.loaded", result=False), decision("deny.policy-stale")]),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_matches_its_events_and_not_their_twins(name):
    yes, no = CASES[name]
    assert [event for event in yes if not matches(rule_of(name), event)] == []
    assert [event for event in no if matches(rule_of(name), event)] == []


def test_every_rule_has_cases():
    assert {rule["name"] for _, rule in RULES if "detection" in rule} == set(CASES)


BURST = next(rule for _, rule in RULES if "correlation" in rule)


@pytest.mark.parametrize("fires,events", [
    (True, [(n, decision("deny.default")) for n in range(50)]),
    (False, [(n, decision("deny.default")) for n in range(49)]),
    (False, [(n * 7, decision("deny.default")) for n in range(50)]),  # over nearly six minutes
    (False, [(n, decision("deny.default", sandbox=f"sb-{n % 2}")) for n in range(98)]),
    (False, [(n, decision("allow.rule")) for n in range(100)]),
], ids=["fifty", "one-less", "slower", "two-sandboxes", "allowed"])
def test_a_burst_is_fifty_denials_of_one_sandbox_in_five_minutes(fires, events):
    assert correlates(BURST, events) is fires
