"""
The lab as a whole. `HostNamespace` plays the host: lo, a cable to the world, addresses of its own of several
kinds, default routes into the world, so that whatever is not stopped leaves. The world's namespace takes every
address as its own; its servers answer on any of them and record it.
"""
import os
import shutil
import tempfile

from lab.canary import Canary
from lab.certificates import Certificates
from lab.dns import LabDns
from lab.namespaces import Namespace
from lab.origin import Origin

ORIGIN = "203.0.113.10"
RESOLVER = "203.0.113.53"
PUBLIC = "5.6.7.8"  # stands for a public address: nothing has to open it
HOST_ADDRESSES = ("203.0.113.1", "192.168.50.1", "1.2.3.4")
HOST_ADDRESSES_6 = ("2001:db8:113::1", "2a00:1::1")

# The bench's rules. Everything it opens beyond public addresses is the origin's /32.
POLICY = f"""policy 1

[profile bench]
allow allowed.test:80,443 GET,HEAD,POST,PUT,OPTIONS /** req-body=16m addr={ORIGIN}/32 id=bench-allowed
allow *.wild.test:443 GET,HEAD,POST /** req-body=16m addr={ORIGIN}/32 id=bench-wild
allow banner.test:2222 GET /** addr={ORIGIN}/32 id=bench-banner
allow public.test:443 GET /** id=bench-public
deny secret.wild.test:1-65535 ANY /** id=bench-secret
"""


class HostNamespace(Namespace):
    def __init__(self, world):
        super().__init__()
        self.ip(
            f"link add world0 type veth peer name world1 netns {world.path}",
            "link set world0 up",
            *[f"addr add {a}/32 dev lo" for a in HOST_ADDRESSES[1:]],
            f"addr add {HOST_ADDRESSES[0]}/24 dev world0",
            f"addr add {HOST_ADDRESSES_6[0]}/64 dev world0 nodad",
            f"addr add {HOST_ADDRESSES_6[1]}/128 dev lo nodad",
        )
        world.ip(
            "link set world1 up",
            f"addr add {ORIGIN}/24 dev world1",
            f"addr add {RESOLVER}/24 dev world1",
            "addr add 2001:db8:113::10/64 dev world1 nodad",
            "route add local 0.0.0.0/0 dev lo table local",
            "route add local ::/0 dev lo table local",
        )
        self.ip(f"route add default via {ORIGIN}", "route add default via 2001:db8:113::10")

    def links(self):
        return sorted(line.split(": ")[1].split("@")[0] for line in self.run("ip", "-o", "link").splitlines())

    def tables(self):
        return sorted(self.run("nft", "list", "tables").splitlines())


class Lab:
    """Namespaces, servers, canary, a folder for files. Names of the bench are in the zone already."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="lab-")
        os.chmod(self.folder, 0o755)
        self.world = Namespace()
        self.host = HostNamespace(self.world)
        self.certificates = Certificates(self.folder)
        self.origin = Origin(self.world, self.certificates)
        self.dns = LabDns(self.world, RESOLVER)
        self.canary = Canary(self.host, [
            (ORIGIN, "tcp", "80, 443, 2222"), (PUBLIC, "tcp", "443"), (RESOLVER, "udp", "53"), (RESOLVER, "tcp", "53"),
        ], (RESOLVER, ORIGIN))
        for name in ("allowed.test", "denied.test", "banner.test", "wild.test", "*.wild.test"):
            self.dns.zone[name] = [ORIGIN]
        self.dns.zone["public.test"] = [PUBLIC]
        self.policy = self.write("bench.allow", POLICY)
        self.runs = []  # every run, for the report of a failed test

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        os.chmod(path, 0o644)
        return path

    def close(self):
        for part in (self.origin, self.dns, self.canary, self.host, self.world):
            part.close()
        shutil.rmtree(self.folder, ignore_errors=True)
