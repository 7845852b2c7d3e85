"""
Rules of the source tree that no compiler knows. File names come on stdin, separated by NUL; findings go to
stdout as file:line: text; exit status 1 when there are any.

  folders    who may include whom, and which file may use which library
  words      calls that are banned outside tests, and words that mark unfinished work
  lines      files of more than 800 lines
  functions  functions of more than 100 lines; stdin is ctags' JSON
  python     Python files that do not parse
"""
import ast
import fnmatch
import json
import re
import sys

BASE = {"common"}
RUN = BASE | {"policy", "audit", "ipc"}
MAY_INCLUDE = {
    "common": BASE,
    "policy": BASE | {"policy"},
    "audit": BASE | {"audit"},
    "ipc": BASE | {"ipc"},
    "netd": RUN | {"netd"},
    "proxy": RUN | {"proxy"},
    "export": RUN | {"export"},
    "sandbox-launcher": RUN | {"sandbox-launcher"},
    "report": BASE | {"audit", "report"},
    "cli": RUN | {"sandbox-launcher", "report", "cli"},
}
# An include of the first is for the files of the second only.
LIBRARIES = {
    "openssl/*": ["proxy/tls*", "proxy/leaf*", "export/tls*", "common/digest.c", "common/sign.c"],
    "ares*.h": ["proxy/resolve*"],
    "netlink/*": ["netd/link*", "netd/netns*"],
    "libnftnl/*": ["netd/nft*", "netd/ruleset*", "netd/guard*"],
    "libmnl/*": ["netd/nft*", "netd/ruleset*", "netd/guard*", "netd/sample*"],
    "seccomp.h": ["common/call_filter.c", "proxy/confine*.c", "export/confine*.c"],
    "libpsl.h": ["policy/suffix.c"],
    "idn2.h": ["policy/alabel.c"],
    "yaml.h": ["cli/import_smokescreen.c"],
    "curl/*": ["export/http.c"],
    "zlib.h": ["export/gzip.c"],
    "uv.h": ["netd/*", "proxy/*"],
    "jansson.h": ["cli/*", "sandbox-launcher/*", "audit/reader.c", "export/answer.c"],
}
BANNED_CALLS = re.compile(
    r"\b(sprintf|vsprintf|strcpy|strcat|strncpy|strncat|strtok|gets|alloca|atoi|atol|atoll|"
    r"v?f?s?scanf|system|popen|signal|tmpnam|mktemp)\s*\(")
# An answer by which the kernel looks at memory once more that may have changed since: no decision (seccomp_unotify(2)).
BANNED_FLAG = "SECCOMP_USER_NOTIF_FLAG_CONTINUE"
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" "DO", "FIX" "ME", "X" "XX", "HA" "CK")) + r")\b")
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
LINES_MAX = 800
FUNCTION_LINES_MAX = 100


def without_comments(text):
    """The code alone; line numbers stay."""
    return COMMENT_OR_TEXT.sub(lambda found: "\n" * found.group().count("\n") or '""', text)


def check_include(path, folder, mark, name):
    if mark == '"':
        target = name.split("/")[0]
        if "/" not in name:
            return f"{name}: project headers are included by path from the root"
        if folder in MAY_INCLUDE and target != "generated" and target not in MAY_INCLUDE[folder]:
            return f"{folder} may not include {name}"
    for pattern, allowed in LIBRARIES.items():
        if fnmatch.fnmatch(name, pattern) and folder in MAY_INCLUDE:
            if not any(fnmatch.fnmatch(path, place) for place in allowed):
                return f"<{name}> is for {', '.join(allowed)} only"
    return None


def folders(path, text):
    folder = path.split("/")[0]
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.match(line)
        if found:
            problem = check_include(path, folder, *found.groups())
            if problem:
                yield number, problem


def words(path, text):
    if path.endswith((".c", ".h")) and not path.startswith("tests/"):
        for number, line in enumerate(without_comments(text).splitlines(), 1):
            for found in BANNED_CALLS.finditer(line):
                yield number, f"{found.group(1)}() is banned"
            if BANNED_FLAG in line:
                yield number, f"{BANNED_FLAG} is banned"
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line):
            yield number, "a word that marks unfinished work"


def lines(_path, text):
    count = text.count("\n")
    if count > LINES_MAX:
        yield count, f"{count} lines, at most {LINES_MAX}"


def python(path, text):
    try:
        ast.parse(text, path)
    except SyntaxError as error:
        yield error.lineno, error.msg


def functions():
    for line in sys.stdin:
        tag = json.loads(line)
        length = tag.get("end", 0) - tag.get("line", 0) + 1
        if length > FUNCTION_LINES_MAX:
            yield f'{tag["path"]}:{tag["line"]}: {tag["name"]}() has {length} lines, at most {FUNCTION_LINES_MAX}'


def findings(rule):
    if rule == "functions":
        yield from functions()
        return
    for path in sys.stdin.read().split("\0"):
        if path:
            with open(path, encoding="utf-8") as file:
                for number, problem in globals()[rule](path, file.read()):
                    yield f"{path}:{number}: {problem}"


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ("folders", "words", "lines", "functions", "python"):
        sys.exit(__doc__)
    found_any = False
    for finding in findings(sys.argv[1]):
        print(finding)
        found_any = True
    sys.exit(found_any)
