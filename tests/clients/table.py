"""
Clients as people install them, each with the words that make it fetch a page: no option about a proxy, none about a certificate.
`{url}` is the page; every client prints what it got, or fails.
"""
import os
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "build", "clients")
SOURCES = os.path.join(ROOT, "tests", "clients")
TOOLS = os.path.join(FOLDER, "node_modules")  # of npm packages, shown as /work/tools
NPM_PACKAGES = ("node@24", "deno@2", "bun@1", "playwright-core@1.65.1")
PYTHON = "/usr/bin/python3"

VARIABLES, CAPTURE = "variables", "capture"
HOST = "allowed.test"


class Client:
    """
    @program: what has to be there. @version: words that print it. @command: words that fetch {url}. @by_variables: whether it obeys
    variables about a proxy, else it is captured in both modes. @trust: by what it trusts the sandbox's authority. @rule: of a client
    of another protocol than https.
    """

    def __init__(self, name, program, version, command, trust, by_variables=True, inputs=(), package=None, env=(), host=HOST, rule=None):
        self.name, self.program, self.version, self.command, self.trust = name, program, version, command, trust
        self.by_variables, self.inputs, self.package, self.env = by_variables, inputs, package, env
        self.host, self.rule = host, rule or "{host} GET,HEAD /**"

    def door(self, mode):
        """Which one it comes through, as the log calls it."""
        return "explicit" if self.by_variables and mode == VARIABLES else "transparent"

    def missing(self):
        """@return why it can't be run here, None: it can."""
        if not os.path.exists(self.program):
            return f"{os.path.basename(self.program)} is not installed ({self.package or 'make deps-clients'})"
        return None

    def says_version(self):
        done = subprocess.run(self.version, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
        words = (done.stdout or done.stderr).split("\n")[0].replace("(", " ").replace(")", " ").replace(",", " ").split()
        numbers = [word.strip('"v') for word in words if any(c.isdigit() for c in word) and "." in word]
        return numbers[0] if numbers else "?"

    def words(self, url):
        return [word.replace("{url}", url) for word in self.command]


def python(name, module, script, trust, **more):
    return Client(name, f"/usr/lib/python3/dist-packages/{module}" if module else PYTHON,
                  [PYTHON, "-c", f"import {module}; print({module}.__version__)" if module else "import sys; print(sys.version)"],
                  [PYTHON, "-c", script], trust, **more)


def node(name, program, inputs, **more):
    return Client(name, program, [program, "--version"],
                  [more.pop("inside", program), "-e", "fetch('{url}').then(async r => { process.stdout.write(await r.text()); process.exit(r.ok ? 0 : 1) })"],
                  "NODE_EXTRA_CA_CERTS", inputs=inputs, **more)


AIOHTTP = """
import aiohttp, asyncio
async def main():
    async with aiohttp.ClientSession(raise_for_status=True) as session, session.get('{url}') as answer:
        print(await answer.text())
asyncio.run(main())
"""
PERL = ("my $r = LWP::UserAgent->new->get($ARGV[0]); print $r->is_success ? $r->decoded_content : die $r->status_line . ' ' . "
        "$r->decoded_content")
PHP = '$b = file_get_contents($argv[1]); echo $b; exit($b === false ? 1 : 0);'
BUN = "const r = await fetch('{url}'); await Bun.write(Bun.stdout, await r.text()); process.exit(r.ok ? 0 : 1)"
DENO = "const r = await fetch('{url}'); console.log(await r.text()); Deno.exit(r.ok ? 0 : 1)"
RUBY = "r = Net::HTTP.get_response(URI(ARGV[0])); print r.body; exit r.is_a?(Net::HTTPSuccess)"
TOOLS_IN = (f"{TOOLS}:tools",)

CLIENTS = [
    Client("curl", "/usr/bin/curl", ["curl", "--version"], ["curl", "-sS", "--fail", "{url}"], "CURL_CA_BUNDLE"),
    Client("wget", "/usr/bin/wget", ["wget", "--version"], ["wget", "-q", "-O-", "-t1", "{url}"], "the distribution's bundle", package="wget"),
    Client("git over https", "/usr/bin/git", ["git", "--version"], ["git", "ls-remote", "{url}.git"], "GIT_SSL_CAINFO"),
    # the origin says its version, and no more
    Client("git over ssh", "/usr/bin/ssh", ["ssh", "-V"],
           ["/bin/bash", "-c", "grep -m1 'remote software version' < <(GIT_SSH_COMMAND='ssh -v -o StrictHostKeyChecking=no' "
            "git ls-remote ssh://git@banner.test:2222/x 2>&1)"],
           "host keys", by_variables=False, package="openssh-client", host="banner.test",
           rule="tcp {host}:2222"),
    python("Python urllib", None, "import urllib.request; print(urllib.request.urlopen('{url}').read().decode())", "SSL_CERT_FILE"),
    python("requests", "requests", "import requests; r = requests.get('{url}'); r.raise_for_status(); print(r.text)", "REQUESTS_CA_BUNDLE"),
    python("httpx", "httpx", "import httpx; r = httpx.get('{url}'); r.raise_for_status(); print(r.text)", "SSL_CERT_FILE", package="python3-httpx"),
    python("aiohttp", "aiohttp", AIOHTTP, "SSL_CERT_FILE", by_variables=False, package="python3-aiohttp"),
    Client("pip", "/usr/lib/python3/dist-packages/pip", [PYTHON, "-m", "pip", "--version"],
           [PYTHON, "-m", "pip", "download", "--no-input", "--disable-pip-version-check", "--retries", "0", "--no-deps", "-d", "/tmp/got",
            "--index-url", "{url}/simple", "labpackage"], "PIP_CERT", package="python3-pip"),
    Client("npm", shutil.which("npm") or "/usr/bin/npm", ["npm", "--version"],
           ["npm", "view", "--fetch-retries", "0", "--no-update-notifier", "--registry", "{url}/", "labmodule", "dist.tarball"],
           "npm_config_cafile"),
    node("Node 20 fetch", shutil.which("node", path="/usr/bin") or "/usr/bin/node", (), by_variables=False),
    node("Node 24 fetch", f"{TOOLS}/node/bin/node", TOOLS_IN, inside="/work/tools/node/bin/node", package="npm package node"),
    Client("Deno", f"{TOOLS}/@deno/linux-x64-glibc/deno", [f"{TOOLS}/@deno/linux-x64-glibc/deno", "--version"],
           ["/work/tools/@deno/linux-x64-glibc/deno", "eval", DENO], "DENO_CERT", inputs=TOOLS_IN, package="npm package deno"),
    Client("Bun", f"{TOOLS}/bun/bin/bun.exe", [f"{TOOLS}/bun/bin/bun.exe", "--version"],
           ["/work/tools/bun/bin/bun.exe", "-e", BUN], "NODE_EXTRA_CA_CERTS", inputs=TOOLS_IN, package="npm package bun"),
    Client("apt", "/usr/lib/apt/apt-helper", ["apt-get", "--version"],
           ["/bin/sh", "-c", "/usr/lib/apt/apt-helper -q download-file \"$0\" /tmp/got && cat /tmp/got", "{url}"], "the distribution's bundle"),
    Client("Go net/http", f"{FOLDER}/fetch", ["go", "version"], ["/work/fetch", "{url}"], "SSL_CERT_FILE",
           inputs=(f"{FOLDER}/fetch",), package="golang-go"),
    Client("Go, own transport", f"{FOLDER}/fetch", ["go", "version"], ["/work/fetch", "-bare", "{url}"], "SSL_CERT_FILE",
           by_variables=False, inputs=(f"{FOLDER}/fetch",), package="golang-go"),
    Client("Java HttpClient", "/usr/bin/java", ["java", "--version"], ["java", "-cp", "/work/java", "Fetch", "client", "{url}"],
           "JAVA_TOOL_OPTIONS", inputs=(f"{FOLDER}/java",), package="default-jdk-headless"),
    Client("Java URLConnection", "/usr/bin/java", ["java", "--version"], ["java", "-cp", "/work/java", "Fetch", "connection", "{url}"],
           "JAVA_TOOL_OPTIONS", inputs=(f"{FOLDER}/java",), package="default-jdk-headless"),
    Client("PHP streams", "/usr/bin/php", ["php", "--version"], ["php", "-r", PHP, "--", "{url}"], "SSL_CERT_FILE", by_variables=False,
           package="php-cli"),
    Client("Perl LWP", "/usr/share/perl5/LWP.pm", ["perl", "-MLWP", "-e", "print $LWP::VERSION"],
           ["perl", "-MLWP::UserAgent", "-e", PERL, "{url}"], "PERL_LWP_SSL_CA_FILE", package="libwww-perl liblwp-protocol-https-perl"),
    Client("Ruby net/http", "/usr/bin/ruby", ["ruby", "--version"], ["ruby", "-rnet/http", "-e", RUBY, "{url}"], "SSL_CERT_FILE",
           package="ruby"),
    Client("Chromium by Playwright", "/usr/bin/chromium", ["chromium", "--version"], ["node", "/work/browser.js", "{url}"],
           "~/.pki/nssdb", inputs=(*TOOLS_IN, f"{SOURCES}/browser.js"), env=("CHROMIUM=/usr/bin/chromium", "NODE_PATH=/work/tools")),
]


def prepare():
    """Make what is not in a package: clients of npm, and two small programs. @return lines on what could not be made."""
    os.makedirs(os.path.join(FOLDER, "java"), exist_ok=True)
    steps = [
        (os.path.join(TOOLS, "playwright-core"), ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--prefix", FOLDER, *NPM_PACKAGES]),
        (os.path.join(FOLDER, "fetch"), ["go", "build", "-o", os.path.join(FOLDER, "fetch"), os.path.join(SOURCES, "fetch.go")]),
        (os.path.join(FOLDER, "java", "Fetch.class"), ["javac", "-d", os.path.join(FOLDER, "java"), os.path.join(SOURCES, "Fetch.java")]),
    ]
    missing = []
    for made, words in steps:
        if os.path.exists(made):
            continue
        if shutil.which(words[0]) is None:
            missing.append(f"{words[0]} is not installed")
            continue
        env = {**os.environ, "CGO_ENABLED": "0", "GOCACHE": os.path.join(FOLDER, "go-cache"), "GOFLAGS": "-trimpath"}
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600, env=env, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            missing.append(f"{' '.join(words[:2])}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return missing
