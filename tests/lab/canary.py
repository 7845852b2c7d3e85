"""
The canary of a host namespace: it hears every packet that this host sends or gets and that is not the lab's
own agreed traffic, to every address and port, its own included. nft counts and remembers such packets, and leads
TCP and UDP to a listener that records what arrives. It must stay silent.
"""
import json
import socket
import threading

from lab.events import Record

PORT = 7

# @agreed: what the proxy may do: ask the lab's name server, and dial the origin. Neighbour discovery
# and errors about agreed packets are not traffic of anyone's.
RULES = """
table inet canary {
	set sent4 { typeof ip daddr . meta l4proto . th dport; flags dynamic; size 8192; }
	set sent6 { typeof ip6 daddr . meta l4proto . th dport; flags dynamic; size 8192; }
	set got4 { typeof ip saddr . ip daddr . meta l4proto; flags dynamic; size 8192; }
	counter sent { }
	counter got { }
	counter forwarded { }
	chain output {
		type filter hook output priority raw; policy accept;
%(agreed_out)s
		meta l4proto icmpv6 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, mld2-listener-report } accept
		ip protocol igmp accept
		icmp type destination-unreachable ip daddr %(agreed_errors)s accept
		oifname "lo" tcp sport %(port)d accept
		meta l4proto { tcp, udp } add @sent4 { ip daddr . meta l4proto . th dport }
		meta l4proto { tcp, udp } add @sent6 { ip6 daddr . meta l4proto . th dport }
		counter name sent
	}
	chain prerouting {
		type filter hook prerouting priority raw; policy accept;
		iifname "lo" accept
%(agreed_in)s
		meta l4proto icmpv6 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, mld2-listener-report } accept
		ip protocol igmp accept
		add @got4 { ip saddr . ip daddr . meta l4proto }
		counter name got
	}
	chain forward {
		type filter hook forward priority raw; policy drop;
		counter name forwarded
	}
	chain lead_output {
		type nat hook output priority -100; policy accept;
%(agreed_out)s
		meta l4proto { tcp, udp } redirect to :%(port)d
	}
	chain lead_prerouting {
		type nat hook prerouting priority -100; policy accept;
%(agreed_in)s
		meta l4proto { tcp, udp } redirect to :%(port)d
	}
}
"""


class Canary:
    def __init__(self, namespace, agreed, errors):
        """@agreed: (address, protocol, ports) that may be sent to and answer; @errors: addresses that may be told so."""
        self.namespace = namespace
        self.heard = Record()
        rule = "\t\tip %s %s %s %s { %s } accept"
        namespace.run("nft", "-f", "-", text=RULES % {
            "agreed_out": "\n".join(rule % ("daddr", a, p, "dport", ports) for a, p, ports in agreed),
            "agreed_in": "\n".join(rule % ("saddr", a, p, "sport", ports) for a, p, ports in agreed),
            "agreed_errors": "{ " + ", ".join(errors) + " }",
            "port": PORT,
        })

        def bind():
            tcp = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
            udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            for sock in (tcp, udp):
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                sock.bind(("::", PORT))
            tcp.listen(64)
            return tcp, udp

        self.tcp, self.udp = namespace.inside(bind)
        threading.Thread(target=self._hear_tcp, daemon=True).start()
        threading.Thread(target=self._hear_udp, daemon=True).start()

    def agree(self, address, protocol, ports):
        """More that may be sent to and answer."""
        for chain, side, port in (("output", "daddr", "dport"), ("lead_output", "daddr", "dport"),
                                  ("prerouting", "saddr", "sport"), ("lead_prerouting", "saddr", "sport")):
            self.namespace.run("nft", f"insert rule inet canary {chain} ip {side} {address} {protocol} {port} {{ {ports} }} accept")

    def close(self):
        for sock in (self.tcp, self.udp):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()

    def _hear_tcp(self):
        while True:
            try:
                sock, peer = self.tcp.accept()
            except OSError:
                return
            with sock:
                sock.settimeout(1)
                try:
                    data = sock.recv(4096)
                except OSError:
                    data = b""
                self.heard.add(("tcp", peer, data))

    def _hear_udp(self):
        while True:
            try:
                data, peer = self.udp.recvfrom(4096)
            except OSError:
                return
            if not data:  # woken by close()
                return
            self.heard.add(("udp", peer, data))

    def counts(self):
        """Packets by counter, and where they went or came from."""
        listing = json.loads(self.namespace.run("nft", "-j", "list", "table", "inet", "canary"))["nftables"]
        packets = {i["counter"]["name"]: i["counter"]["packets"] for i in listing if "counter" in i}
        places = sorted(
            i["set"]["name"] + " " + " ".join(map(str, element["concat"]))
            for i in listing if "set" in i for element in i["set"].get("elem", []))
        return packets, places

    def assert_silent(self):
        packets, places = self.counts()
        assert not any(packets.values()), f"the canary heard {packets}: {places}"
        assert not self.heard.since(), f"the canary's listener heard {self.heard.since()}"
