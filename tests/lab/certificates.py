"""A test CA, and certificates under it: good ones for any name, bad ones of each kind that a verifier must refuse."""
import datetime
import ipaddress
import itertools
import os
import ssl
import threading

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)
# What may be wrong with a leaf, by the first label of the name that gets it.
BAD_KINDS = ("expired", "notyet", "selfsigned", "wrongname", "cnonly", "unknownroot", "lookalike")


def _name(common_name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(text):
    if not isinstance(text, str):
        return text
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


class Authority:
    """A CA. @like: a certificate whose subject and key identifier are imitated, under a key of our own."""

    def __init__(self, common_name, like=None, permits=None):
        """@permits: the one name below which it may sign (RFC 5280 4.2.1.10)."""
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = like.subject if like else _name(common_name)
        identifier = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
        if like:
            identifier = like.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        self.identifier = identifier
        now = datetime.datetime.utcnow()
        constraints = x509.NameConstraints([x509.DNSName(permits)], None) if permits else None
        builder = (
            x509.CertificateBuilder().subject_name(self.subject).issuer_name(self.subject)
            .public_key(self.key.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY).not_valid_after(now + 2 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(identifier, critical=False)
            .add_extension(x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True))
        if constraints:
            builder = builder.add_extension(constraints, critical=True)
        self.certificate = builder.sign(self.key, hashes.SHA256())

    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, key, common_name, names, start, end, usage=ExtendedKeyUsageOID.SERVER_AUTH):
        now = datetime.datetime.utcnow()
        builder = (
            x509.CertificateBuilder().subject_name(_name(common_name)).issuer_name(self.subject)
            .public_key(key.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(now + start).not_valid_after(now + end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self.identifier), critical=False))
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(n) for n in names]), critical=False)
        return builder.sign(self.key, hashes.SHA256())


def self_signed(key, name):
    now = datetime.datetime.utcnow()
    return (
        x509.CertificateBuilder().subject_name(_name(name)).issuer_name(_name(name)).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - DAY).not_valid_after(now + DAY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256()))


class Certificates:
    """Server contexts by name, minted when first asked for."""

    def __init__(self, folder):
        self.folder = folder
        self.good = Authority("Lab test CA")
        self.unknown = Authority("Lab CA that nobody trusts")
        self.lookalike = None  # set by imitate()
        self.corners = {}
        self.constrained = Authority("Lab CA for other.test only", permits="other.test")
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.contexts = {}
        self.paths = {}
        self.numbers = itertools.count()
        self.lock = threading.Lock()
        self.ca_file = os.path.join(folder, "ca.pem")
        with open(self.ca_file, "wb") as file:
            file.write(self.good.pem() + self.constrained.pem())
        os.chmod(self.ca_file, 0o644)

    def imitate(self, pem):
        """From now on the name lookalike.* gets a leaf whose issuer has this CA's subject and key identifier."""
        with self.lock:
            self.lookalike = Authority("", like=x509.load_pem_x509_certificate(pem))
            self.contexts = {n: c for n, c in self.contexts.items() if not n.startswith("lookalike.")}

    def corner(self, name, names):
        """What @name shows is for these names instead; none: a wildcard as its CN."""
        with self.lock:
            self.corners[name] = [x509.DNSName(n) for n in names]
            self.contexts.pop(name, None)

    def _corner(self, name):
        names = self.corners[name]
        if name.startswith("constrained."):
            return self.constrained.issue(self.key, name, names, -DAY, DAY)
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if name.startswith("wrong-purpose.") else ExtendedKeyUsageOID.SERVER_AUTH
        return self.good.issue(self.key, name if names else "*.wild.test", names, -DAY, DAY, usage)

    def _leaf(self, name):
        if name in self.corners:
            return self._corner(name)
        kind = name.split(".")[0]
        args = (self.key, name[:64], [name], -DAY, DAY)
        if kind == "expired":
            return self.good.issue(self.key, name, [name], -2 * DAY, -DAY / 24)
        if kind == "notyet":
            return self.good.issue(self.key, name, [name], DAY / 2, 2 * DAY)
        if kind == "selfsigned":
            return self_signed(self.key, name)
        if kind == "wrongname":
            return self.good.issue(self.key, "other.test", ["other.test"], -DAY, DAY)
        if kind == "cnonly":
            return self.good.issue(self.key, name, [], -DAY, DAY)
        if kind == "unknownroot":
            return self.unknown.issue(*args)
        if kind == "lookalike" and self.lookalike:
            return self.lookalike.issue(*args)
        return self.good.issue(*args)

    def context(self, name):
        name = (name or "nameless.test").lower()
        with self.lock:
            if name not in self.contexts:
                self.contexts[name] = self._make(name)
            return self.contexts[name]

    def default_path(self):
        """A file with key and certificate for a handshake that has not yet said a name."""
        self.context(None)
        return self.paths["nameless.test"]

    def _make(self, name):
        chain = self._leaf(name).public_bytes(serialization.Encoding.PEM)
        if name.startswith("lookalike.") and self.lookalike:
            chain += self.lookalike.pem()
        secret = self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                        serialization.NoEncryption())
        path = os.path.join(self.folder, f"leaf-{next(self.numbers)}.pem")
        with open(path, "wb") as file:
            file.write(secret + chain)
        self.paths[name] = path
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        context.set_alpn_protocols(["http/1.1"])
        return context
