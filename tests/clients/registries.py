"""
The registries of this machine, as its user's own tools are configured: npm's and apt's fetch something small from the real one, by
variables and by capture, and are refused where a rule names another host. Without a laboratory, in the network of this machine.
"""
import ipaddress
import os
import shutil
import socket
import subprocess
import tempfile
import urllib.parse

from lab.eclusa import program, read_audit
from clients.table import CAPTURE, VARIABLES

OTHER = "other.test"


def ask(*words):
    if shutil.which(words[0]) is None:
        return ""
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
    return done.stdout.strip().split("\n")[0] if done.returncode == 0 else ""


def found():
    """@return (name, version's words, URL, the client's words) of those that are configured."""
    npm = ask("npm", "config", "get", "registry")
    apt = ask("apt-get", "indextargets", "--format", "$(REPO_URI)dists/$(RELEASE)/InRelease", "Created-By: Packages")
    return [
        ("npm, this machine's registry", ["npm", "--version"], npm, ["npm", "view", "--no-update-notifier", "--registry", npm, "npm", "name"]),
        ("apt, this machine's archive", ["apt-get", "--version"], apt, ["/usr/lib/apt/apt-helper", "-q", "download-file", apt, "/tmp/got"]),
    ]


def rule_for(url, host):
    """A rule for another host is for the same port. An address that is not public has to be opened by the rule."""
    parts = urllib.parse.urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    addresses = {item[4][0] for item in socket.getaddrinfo(parts.hostname, port, socket.AF_INET, socket.SOCK_STREAM)}
    private = [address for address in addresses if not ipaddress.ip_address(address).is_global]
    opened = f" addr={','.join(address + '/32' for address in sorted(private))}" if private else ""
    return f"{host}:{port} GET,HEAD /**{opened}"


def run(url, host, mode, words):
    with tempfile.TemporaryDirectory() as audit:
        proxy_env = "off" if mode == CAPTURE else "on"
        done = subprocess.run(
            [program(), "run", "--audit-dir", audit, "--proxy-env", proxy_env, "--memory", "2G", "--pids-limit", "256", "--timeout", "60s",
             "--cpu-time", "60s", "--allow", rule_for(url, host), "--", *words],
            capture_output=True, text=True, check=False, timeout=100, stdin=subprocess.DEVNULL)
        return done, read_audit(audit)


def outcome(url, words, mode):
    """@return the door, or what is wrong, and why."""
    host = urllib.parse.urlsplit(url).hostname
    done, events = run(url, host, mode, words)
    doors = {event["unmapped"]["eclusa"]["intercept"] for event in events if event.get("class_uid") == 4002 and
             event["status_code"] == "allow.rule"}
    wanted = "transparent" if mode == CAPTURE else "explicit"
    if done.returncode != 0 or doors != {wanted}:
        return "FAILS", f"{done.stdout}{done.stderr}, through {doors}"
    done, events = run(url, OTHER, mode, words)
    if done.returncode == 0 or not any(event.get("status_code") == "deny.default" for event in events):
        return "NOT DENIED", done.stdout + done.stderr
    return wanted, None


def rows():
    """Prints them. @return failures."""
    failures = []
    for name, version, url, words in found():
        if not url.startswith("http"):
            print(f"| {name} | - | skipped | skipped | none is configured |", flush=True)
            continue
        cells = []
        for mode in (VARIABLES, CAPTURE):
            word, why = outcome(url, words, mode)
            cells.append(word)
            if why is not None:
                failures.append(f"{name}, by {mode}: {word}\n{why}")
        number = next((word for word in ask(*version).split() if word[:1].isdigit()), "?")
        print(f"| {name} | {number} | {' | '.join(cells)} | as above |", flush=True)
    return failures
