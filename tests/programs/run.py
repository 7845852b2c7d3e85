"""
Runs the programs that people run in sandboxes, and CPython's own tests of the modules that meet the system the most: all of
them must work under the filter of system calls. Not part of `make test`, as it takes a quarter of an hour; `make programs`.

  run.py ECLUSA [NAME...]        names of programs or of test modules, such as numpy or test_os

A test of CPython that may fail has a line in expected.txt, with the reason. Exit status 1 when anything failed that is not
expected to.
"""
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
ROOM = ["--memory", "2G", "--cpus", "2", "--pids-limit", "512", "--out-limit", "256M", "--output-limit", "64M"]
MODULES = ("test_os", "test_subprocess", "test_threading", "test_multiprocessing_fork", "test_multiprocessing_spawn",
           "test_multiprocessing_forkserver", "test_socket", "test_ssl")

# Name, command, what it prints. They print little and use much.
PROGRAMS = (
    ("numpy", [PYTHON, "-c", """
import numpy
a = numpy.random.default_rng(1).random((400, 400))
print(numpy.allclose(numpy.linalg.inv(a) @ a, numpy.eye(400)), numpy.memmap('/tmp/m', shape=(9,), mode='w+').sum())"""], "True 0\n"),
    ("pandas", [PYTHON, "-c", """
import io, pandas
frame = pandas.read_csv(io.StringIO('k,v\\na,1\\nb,2\\na,3\\n'))
frame.to_pickle('/tmp/f')
print(pandas.read_pickle('/tmp/f').groupby('k').v.sum().to_dict())"""], "{'a': 4, 'b': 2}\n"),
    ("scipy", [PYTHON, "-c", """
import numpy, scipy.fft, scipy.optimize, scipy.sparse.linalg
print(round(scipy.optimize.minimize(lambda x: (x[0] - 3) ** 2, [0.]).x[0], 3), scipy.fft.fft(numpy.ones(4), workers=2)[0].real)"""],
     "3.0 4.0\n"),
    ("scikit-learn", [PYTHON, "-c", """
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
x, y = make_classification(200, random_state=1)
print(cross_val_score(RandomForestClassifier(20, random_state=1, n_jobs=2), x, y, n_jobs=2).mean() > 0.8)"""], "True\n"),
    ("matplotlib", [PYTHON, "-c", """
import matplotlib
matplotlib.use('Agg')
import matplotlib.pyplot, os
matplotlib.pyplot.plot([1, 2, 3])
matplotlib.pyplot.savefig('/tmp/p.png')
matplotlib.pyplot.savefig('/tmp/p.pdf')
print(os.path.getsize('/tmp/p.png') > 1000 < os.path.getsize('/tmp/p.pdf'))"""], "True\n"),
    ("node", ["node", "-e", """
const {Worker} = require('worker_threads'), http = require('http'), fs = require('fs'), {execSync} = require('child_process');
fs.watch('/tmp', () => {}).unref();
new Worker("require('worker_threads').parentPort.postMessage(require('crypto').randomBytes(8).length)", {eval: true})
    .on('message', n => {
        const server = http.createServer((_, to) => to.end('hi')).listen(0, '127.0.0.1', () =>
            http.get({port: server.address().port, host: '127.0.0.1', agent: false}, from => from.on('data', text => {
                console.log(n, `${text}`, `${execSync('echo child')}`.trim());
                server.close();
            })));
    });"""], "8 hi child\n"),
    ("gcc", ["sh", "-c", """
printf '%s' '#include <pthread.h>
#include <stdio.h>
static void *work(void *to) { *(int *)to = 7; return 0; }
int main(void) { pthread_t t; int n; pthread_create(&t, 0, work, &n); pthread_join(t, 0); printf("%d\\n", n); }' >/tmp/a.c
cd /tmp && gcc -O2 -flto -pthread -o a a.c && ./a && g++ -x c++ -o b - <<'END' && ./b
#include <iostream>
int main() { try { throw 1; } catch (int n) { std::cout << n << std::endl; } }
END"""], "7\n1\n"),
    ("git", ["sh", "-c", """
cd /tmp && git init -q r && cd r && git config user.email a@example.com && git config user.name a && echo x >x &&
git add x && git commit -q -m one && git checkout -q -b two && echo y >>x && git commit -q -a -m two && git gc -q &&
git clone -q . ../s && git -C ../s log --format=%s && git fsck --strict 2>/dev/null"""], "two\none\n"),
    ("shell", ["sh", "-c", "seq 1000 | xargs -n 10 -P 4 echo | wc -l; tar -C /usr/share/doc -cf - bash | gzip | wc -c | grep -c .; "
               "find /usr/include -maxdepth 1 -name stdio.h; date -u -d @0 +%F"], "100\n1\n/usr/include/stdio.h\n1970-01-01\n"),
)


def run(eclusa, *words):
    with tempfile.TemporaryDirectory() as audit:
        done = subprocess.run([eclusa, "run", "--json", "--audit-dir", audit, *ROOM, *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        sys.exit(f"no result: {done.stdout!r} {done.stderr!r}")


def refused_calls(result):
    return [d for d in result["denials"] if d["reason"] == "sandbox.violation"]


def run_program(eclusa, name, command, output):
    """@return what is wrong, or None."""
    result = run(eclusa, "--timeout", "5m", "--cpu-time", "5m", "--", *command)
    if result["verdict"] != "ok" or result["stdout"] != output:
        return f"{result['verdict']}: {result['stdout']!r} {result['stderr'][-2000:]!r} {result['errors']}"
    if refused_calls(result):
        return f"works, and yet: {refused_calls(result)}"
    return None


def read_expected():
    """Pattern of names of tests to reason."""
    with open(os.path.join(HERE, "expected.txt"), encoding="utf-8") as file:
        lines = [line.split(None, 1) for line in file if line.strip() and not line.startswith("#")]
    return {words[0]: words[1].strip() for words in lines}


def why_expected(expected, test):
    return next((reason for pattern, reason in expected.items() if fnmatch.fnmatchcase(test, pattern)), None)


def failures(text):
    """unittest's own list at its end: "ERROR: name (test.test_os.Class.name)", setUpClass and subtests included."""
    found = re.findall(r"^(?:FAIL|ERROR|UNEXPECTED SUCCESS): (\S+) \(([\w.]+)\)", text, re.M)
    return sorted({where if name in ("setUpClass", "tearDownClass") else where if where.endswith("." + name) else f"{where}.{name}"
                   for name, where in found})


def run_module(eclusa, module, expected):
    # its tests that need a host of the world are left out by the module itself
    result = run(eclusa, "--timeout", "15m", "--cpu-time", "15m", "--", PYTHON, "-m", "unittest", "-v", f"test.{module}")
    ran = re.search(r"^Ran (\d+) tests? in", result["stderr"], re.M)
    if ran is None:
        return f"{result['verdict']}: it did not come to its end: {result['stderr'][-2000:]}"
    print(f"  {module}: {ran.group(1)} tests, {result['usage']['wall_ms'] // 1000} s; refused calls: "
          f"{sorted({d['rule'] for d in refused_calls(result)})}")
    wrong = []
    for test in failures(result["stderr"]):
        reason = why_expected(expected, test)
        print(f"    fails: {test}: {reason or 'NOT EXPECTED'}")
        if reason is None:
            wrong.append(test)
    if not wrong:
        return None
    begin = result["stderr"].find(f"({wrong[0]})\n----")
    return f"{len(wrong)} fail that should not, the first one:\n{result['stderr'][begin:begin + 1500] if begin >= 0 else wrong[0]}"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    eclusa, names = sys.argv[1], sys.argv[2:]
    expected = read_expected()
    steps = [(name, lambda row=row: run_program(eclusa, *row)) for row in PROGRAMS for name in row[:1]]
    steps += [(module, lambda module=module: run_module(eclusa, module, expected)) for module in MODULES]
    failed = 0
    for name, step in steps:
        if names and name not in names:
            continue
        wrong = step()
        print(f"{name}: {'ok' if wrong is None else 'FAILED'}", flush=True)
        if wrong is not None:
            failed += 1
            print("    " + wrong.replace("\n", "\n    "), flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
