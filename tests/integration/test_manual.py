"""eclusa.allow(5) against the code: every attribute, statement, lint code, reason and limit, and an example that is clean."""
import pathlib
import re
import subprocess

from lab.eclusa import program

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/man/eclusa.allow.5").read_text()
PLAIN = subprocess.run(["mandoc", "-T", "ascii", ROOT / "docs/man/eclusa.allow.5"], capture_output=True, check=True).stdout
PLAIN = re.sub(rb".\x08", b"", PLAIN).decode()


def source(pattern):
    return "\n".join(path.read_text() for path in sorted(ROOT.glob(pattern)))


def section(name):
    return re.search(rf"^\.Sh {name}\n(.*?)(?=^\.Sh |\Z)", PAGE, re.S | re.M).group(1)


def test_every_attribute_is_described_and_no_other():
    keys = set(re.findall(r'\[ATTRIBUTE_\w+\] = \{"([a-z-]+)"', source("policy/attribute.c")))
    assert len(keys) > 20
    described = set(re.findall(r"^\.It Cm .*", section("ATTRIBUTES"), re.M))
    assert {key for line in described for key in re.findall(r"(?:Cm|,) ?([a-z-]+)=", line)} == keys


def test_the_places_of_every_attribute_are_right():
    table = source("policy/attribute.c")
    macros = {"ON_RULES": "ad", "ON_ALLOW_OR_BEFORE": "af", "ON_LIMITS": "auf", "ATTRIBUTE_ON_ALLOW": "a", "ATTRIBUTE_ON_DENY": "d",
              "ATTRIBUTE_ON_USE": "u", "ATTRIBUTE_ON_DEFAULTS": "f"}
    for key, places in re.findall(r'\[ATTRIBUTE_\w+\] = \{"([a-z-]+)", ([A-Z_| \n\t]+),', table):
        wanted = {letter for macro in re.split(r"[|\s]+", places) for letter in macros[macro]}
        line = re.search(rf"^\.It Cm (?:.*\bCm )?{key}=.* Pq ([adfu]+)$", section("ATTRIBUTES"), re.M)
        assert line and set(line.group(1)) == wanted, key


def test_every_finding_has_its_code_described():
    text = source("policy/*.c")
    codes = set(re.findall(r'report_(?:error|warning|note)\(\s*[^;"]*?"([a-z-]+)",', text))
    codes |= set(re.findall(r'report_at\(\s*p,[^;"]*?"([a-z-]+)",', text))
    codes -= set(re.findall(r'"([a-z-]+)"', source("policy/config.c")))  # of the configuration, which is no policy
    codes |= {"path", "port", "method"}
    described = {code for line in re.findall(r"^\.It Li (.*)", section("LINT CODES"), re.M) for code in line.split(" , ")}
    assert len(codes) > 40
    assert sorted(codes - described) == [] and sorted(described - codes) == []


def test_every_finding_has_a_unit_test():
    tests = source("tests/unit/test_policy_*.c")
    codes = {code for line in re.findall(r"^\.It Li (.*)", section("LINT CODES"), re.M) for code in line.split(" , ")}
    assert sorted(code for code in codes if f'"{code}"' not in tests and f":{code}" not in tests) == []


def test_every_reason_that_is_described_exists():
    codes = set(re.findall(r'\{"((?:allow|deny|observe)\.[a-z-]+)"', source("common/reason.c")))
    named = set(re.findall(r"\b(?:allow|deny|observe)\.[a-z]+(?:-[a-z]+)*\b", section("REASONS")))
    assert len(named) > 20 and named <= codes
    used = set(re.findall(r"\b(?:allow|deny|observe)\.[a-z]+(?:-[a-z]+)*\b", PAGE)) - {"deny.path"}
    assert used <= named | {"deny-always.allow"}


def test_the_limits_are_those_of_the_code():
    defined = {name: int(value) for name, value in re.findall(
        r"#define (\w+_MAX) +\(?(\d+)", "\n".join(source(f"policy/{f}") for f in ("*.h", "source.c")))}
    text = " ".join(section("LIMITS").split())
    for name in ("LEXER_LINE_BYTES_MAX", "LEXER_TOKENS_MAX", "INCLUDES_MAX", "BUNDLE_FILES_MAX", "SYNTAX_RULES_MAX", "SYNTAX_SECTIONS_MAX",
                 "SYNTAX_STATEMENTS_MAX", "PATTERN_PATH_BYTES_MAX", "SYNTAX_DEPTH_MAX", "RESOLVE_INSTANCES_MAX"):
        assert re.search(rf"\b{defined[name]:,}\b", text), name
    assert f"at most {defined['VALUE_LIST_MAX']} entries" in PLAIN.replace("\n     ", " ")


def test_the_example_is_clean(tmp_path):
    blocks = re.findall(r"^\.Bd -literal -offset indent\n(policy 1\n.*?)^\.Ed", section("EXAMPLES"), re.S | re.M)
    assert len(blocks) == 1
    (tmp_path / "common").mkdir()
    (tmp_path / "common/deny-always.allow").write_text("policy 1\n")
    path = tmp_path / "a.allow"
    path.write_text(blocks[0].replace("\\e", "\\"))
    ran = subprocess.run([program(), "policy", "lint", "--strict", path], capture_output=True, text=True, timeout=60)
    assert [line for line in ran.stdout.splitlines() if ": note: " not in line] == [] and ran.returncode == 0, ran.stdout
