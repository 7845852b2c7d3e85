"""Packages of one module that an origin of the tests serves: a wheel for pip, a tarball for npm."""
import base64
import hashlib
import io
import json
import tarfile
import zipfile


def wheel_of_package():
    """A package of one module, as a zip that follows the wheel format."""
    files = {
        "labpackage.py": b"ANSWER = 42\n",
        "labpackage-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: labpackage\nVersion: 1.0\n",
        "labpackage-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, data in files.items())
    files["labpackage-1.0.dist-info/RECORD"] = (record + "labpackage-1.0.dist-info/RECORD,,\n").encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarball_of_module():
    """An npm package of one file."""
    files = {"package/package.json": json.dumps({"name": "labmodule", "version": "1.0.0", "main": "index.js"}).encode(),
             "package/index.js": b"module.exports = 42\n"}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()
