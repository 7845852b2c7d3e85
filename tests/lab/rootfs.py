"""A root of its own for a sandbox: a few programs of the host with their libraries, and nothing else."""
import os
import re
import shutil
import subprocess


def make_rootfs(folder, programs=("sh", "cat", "ls", "id", "touch", "mkdir", "stat")):
    """@return the folder. As root files belong to root, as in an image that was unpacked."""
    os.makedirs(os.path.join(folder, "usr/bin"))
    for name in ("bin", "lib", "lib64"):
        os.makedirs(os.path.join(folder, "usr", name), exist_ok=True)
        os.symlink(f"usr/{name}", os.path.join(folder, name))
    for program in programs:
        path = shutil.which(program, path="/usr/bin:/bin")
        shutil.copy(path, os.path.join(folder, "usr/bin", program))
        for library in re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout):
            target = os.path.join(folder, os.path.realpath(os.path.dirname(library)).lstrip("/"), os.path.basename(library))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if not os.path.exists(target):
                shutil.copy(library, target)
    with open(os.path.join(folder, "marker"), "w", encoding="utf-8") as file:
        file.write("from the root\n")
    return folder
