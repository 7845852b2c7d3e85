"""A policy that somebody signs, and what the host's configuration says of whom to trust."""
import hashlib
import subprocess

from lab.eclusa import program
from lab.world import ORIGIN

RULES = f"policy 1\ninclude common/deny.allow\n[profile p]\nallow allowed.test:80 GET,HEAD /** addr={ORIGIN}/32 note=laboratory\n"


def openssl(*words):
    return subprocess.run(["openssl", *map(str, words)], capture_output=True, timeout=60, check=False)


def tool(*words):
    return subprocess.run([program(), "policy", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


def make_key(folder, name):
    """A key pair, as the manual says to make one. @return (private, public)"""
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    assert openssl("genpkey", "-algorithm", "ed25519", "-out", private).returncode == 0
    assert openssl("pkey", "-in", private, "-pubout", "-out", public).returncode == 0
    public.chmod(0o644)
    return private, public


class Bench:
    """A policy of two files, one of them included, and the keys of alice, who is trusted, and of mallory, who is not."""

    def __init__(self, folder):
        self.folder = folder
        folder.chmod(0o755)
        self.alice, self.alice_public = make_key(folder, "alice")
        self.mallory, self.mallory_public = make_key(folder, "mallory")
        self.policy = folder / "policy"
        (self.policy / "common").mkdir(parents=True)
        (self.policy / "rules.allow").write_text(RULES)
        (self.policy / "common/deny.allow").write_text("policy 1\ndeny denied.test\n")

    def sign(self, key=None):
        done = tool("sign", self.policy, "--key", key or self.alice)
        assert done.returncode == 0, done.stderr

    @staticmethod
    def key_id(public):
        """By which events and tools name a key."""
        der = openssl("pkey", "-pubin", "-in", public, "-outform", "DER").stdout
        return hashlib.sha256(der).hexdigest()[:16]

    def configure(self, text):
        """Words before a command: it sees an /etc of its own with this configuration, also as it is changed, and nobody else does."""
        etc = self.folder / "etc"
        etc.mkdir(exist_ok=True)
        (self.folder / "config").write_text(text)
        script = (f"mount -t tmpfs none {etc} && chmod 755 {etc} && cp -a /etc/. {etc} && mkdir -p {etc}/eclusa && "
                  f"ln -s {self.folder}/config {etc}/eclusa/config && mount --bind {etc} /etc && exec \"$@\"")
        return ["unshare", "--mount", "sh", "-c", script, "sh"]
