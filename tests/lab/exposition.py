"""Prometheus' text format, read strictly: what it does not allow, or what our own metrics should not do, fails."""
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\+Inf|[0-9]+(?:\.[0-9]+)?)\Z")
UNITS = r"_(?:milliseconds|ms|microseconds|us|nanoseconds|ns|minutes|hours|kilobytes|kib|mib|percent)(?:_|$)"  # not base units
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


def labels_of(text):
    labels, at = {}, 0
    while text and at < len(text):
        found = LABEL.match(text, at)
        assert found, f"labels: {text!r}"
        assert found.group(1) not in labels, f"a label twice: {text!r}"
        assert not found.group(1).startswith("__"), f"a name that is kept for Prometheus itself: {text!r}"
        labels[found.group(1)] = found.group(2)
        at = found.end()
    return labels


def parse(text):
    """@return {family: (kind, {(name, ((label, value), ...)): number})}"""
    assert text.endswith("\n") and "\r" not in text
    families, current, kind = {}, None, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            assert current is None or kind, f"{current} has no TYPE"
            current, text = re.fullmatch(rf"# HELP ({NAME}) (\S.*)", line).groups()
            assert re.fullmatch(r"(?:[^\\]|\\[\\n])*", text), f"{current}: HELP escapes nothing but \\ and \\n: {text!r}"
            assert current not in families, f"{current} twice"
            kind = None
        elif line.startswith("# TYPE "):
            name, kind = re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line).groups()
            assert name == current and name not in families, f"{line!r}: TYPE comes once, right behind HELP"
            check_name(name, kind)
            families[current] = (kind, {})
        else:
            found = SAMPLE.match(line)
            assert found and kind, f"{line!r}"
            name, labels, value = found.groups()
            assert name in [current + suffix for suffix in SUFFIXES[kind]], f"{name} within {current}"
            key = (name, tuple(sorted(labels_of(labels).items())))
            assert ("le" in dict(key[1])) == name.endswith("_bucket"), f"{line!r}: le is for buckets"
            assert key not in families[current][1], f"{key} twice"
            families[current][1][key] = float(value)
    for name, (kind, samples) in families.items():
        assert samples, f"{name} is empty"
        if kind == "histogram":
            check_histogram(name, samples)
    return families


def check_name(name, kind):
    """What promtool's linter asks of names."""
    assert name.startswith("eclusa_") and name == name.lower() and not name.endswith("_"), name
    assert (kind == "counter") == name.endswith("_total"), f"{name} is a {kind}"
    assert not name.endswith(("_bucket", "_count", "_sum", f"_{kind}")), f"{name}: what suffixes and types are for"
    assert not re.search(UNITS, name), f"{name}: seconds and bytes, which are base units"


def check_histogram(name, samples):
    buckets = [(float(dict(labels)["le"].replace("+Inf", "inf")), value) for (sample, labels), value in samples.items()
               if sample == name + "_bucket"]
    assert buckets == sorted(buckets), f"{name}: {buckets}"
    assert [value for _, value in buckets] == sorted(value for _, value in buckets), f"{name} falls"
    assert buckets[-1] == (float("inf"), samples[name + "_count", ()]), f"{name} ends wrongly"
    assert (name + "_sum", ()) in samples


def value(families, name, **labels):
    for kind_samples in families.values():
        found = kind_samples[1].get((name, tuple(sorted(labels.items()))))
        if found is not None:
            return found
    raise KeyError((name, labels))
