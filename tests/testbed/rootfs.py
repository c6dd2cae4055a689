"""Builds what all hosts share: the root file system, the layers that hide a scheduler, and a container image.

Packages come from the Debian mirror that this machine's apt is set up with. Only apptainer is taken from sid, which
moves: the pin is by release. If it stops installing, the build fails with apt's own message in build-rootfs.log.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.testbed.hosts import USERS
from tests.testbed.place import BASE, FILES, IMAGE_ROOT, IMAGES, LAYERS, ROOTFS, Problem, put, remove_tree, say, sh

TRIXIE = (
    *("openssh-server", "python3", "git", "rsync", "procps", "iproute2", "less", "jq", "tree", "uuid-runtime"),
    *("condor", "slurm-wlm", "munge", "fuse-overlayfs", "fuse3", "squashfuse", "squashfs-tools", "e2fsprogs"),
    *("fuse2fs", "uidmap", "ca-certificates", "bubblewrap", "patchelf", "libstdc++6"),
)
SID = ("apptainer",)
# python3, not python3-minimal: the runtime's extension modules use the libraries that come with it.
IMAGE_PACKAGES = ("python3", "procps", "git", "ca-certificates", "libstdc++6")
# Packages whose programs a host without that scheduler must not have, and programs of ours that belong to them.
FEATURES = {
    "condor": ("condor", "condor-upgrade-checks"),
    "slurm": ("slurm-client", "slurmctld", "slurmd", "munge"),
}
EXTRA_PROGRAMS = {"condor": ("/usr/local/bin/condor_submit_bid",)}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
TOOLS = ("mmdebstrap", "ip", "nsenter", "unshare", "ssh-keygen")
RECIPE = 1
# gzip at its default level takes 27 s for this image.
SQUASH = "-comp zstd -Xcompression-level 1"


def digest() -> str:
    """Changes with anything that the built file systems depend on."""
    users = {name: user.uid for name, user in USERS.items()}
    bid = (FILES / "condor_submit_bid").read_text()
    text = json.dumps([RECIPE, TRIXIE, SID, IMAGE_PACKAGES, FEATURES, users, bid, SQUASH])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def built() -> bool:
    """Whether what lies in BASE was made by this recipe."""
    try:
        return bool(json.loads((BASE / "built.json").read_text())["recipe"] == digest())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def missing() -> list[str]:
    """Programs and files without which `build` cannot work."""
    return [tool for tool in TOOLS if not shutil.which(tool)] + ([] if KEYRING.exists() else [str(KEYRING)])


def mirror(folder: Path = Path("/etc/apt")) -> str:
    """The Debian mirror in apt's configuration, in either of its two notations. Problem when there is none."""
    for path in (folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))):
        if path.suffix not in (".list", ".sources") or not path.is_file():
            continue
        for line in path.read_text(errors="replace").splitlines():
            found = re.match(r"(?:URIs:|deb\s(?:\s*\[[^]]*\])?)\s*(?:\S+\s+)*?(\S+://\S+?/debian)/?(?:\s|$)", line)
            if found:
                return found[1]
    raise Problem(f"no Debian mirror (an address that ends in /debian) in {folder}/sources.list or sources.list.d")


def build() -> dict[str, float]:
    """Makes everything anew and returns the seconds of each part. Nothing may be up. Takes about a minute."""
    if lacking := missing():
        raise Problem(
            f"missing: {', '.join(lacking)} (apt-get install --no-install-recommends "
            "mmdebstrap debian-archive-keyring iproute2 util-linux openssh-client)"
        )
    seconds: dict[str, float] = {}
    (BASE / "built.json").unlink(missing_ok=True)
    for folder in (ROOTFS, LAYERS, IMAGES, IMAGE_ROOT):
        remove_tree(folder)
    IMAGES.mkdir(parents=True)
    users = "; ".join(
        f'chroot "$1" useradd -M -u {user.uid} -g users -s /bin/bash -p "*" {name}' for name, user in USERS.items()
    )
    slim = 'rm -rf "$1"/var/lib/apt "$1"/var/cache/*; ln -sf python3 "$1/usr/bin/python"'
    roots: dict[str, Callable[[], None]] = {
        "root": lambda: _mmdebstrap(ROOTFS, "apt", TRIXIE, SID, users),
        "image root": lambda: _mmdebstrap(IMAGE_ROOT, "essential", IMAGE_PACKAGES, (), slim),
    }
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(_timed, seconds, name, make) for name, make in roots.items()]
    for job in jobs:
        job.result()
    shutil.copy(FILES / "condor_submit_bid", ROOTFS / "usr/local/bin/condor_submit_bid")
    _timed(seconds, "layers", _layers)
    _timed(seconds, "image", _image)
    put(BASE / "built.json", json.dumps({"recipe": digest(), "seconds": seconds}))
    say(f"built: {', '.join(f'{name} {took:.1f} s' for name, took in seconds.items())}")
    return seconds


def _timed(seconds: dict[str, float], name: str, do: Callable[[], None]) -> None:
    start = time.monotonic()
    do()
    seconds[name] = round(time.monotonic() - start, 1)


def _mmdebstrap(target: Path, variant: str, packages: Sequence[str], sid: Sequence[str], hook: str) -> None:
    uri = mirror()
    words = ["mmdebstrap", "--mode=root", f"--variant={variant}", "--format=directory"]
    words.append("--include=" + ",".join((*packages, *sid)))
    # The way this machine reaches the mirror (proxy, checks of dates) goes for the new root too.
    for line in sh("apt-config", "dump").splitlines():
        if re.match(r"Acquire::(Check-|http|https|Retries)", line):
            words.append("--aptopt=" + line.rstrip(";"))
    words += ['--aptopt=Acquire::Languages "none"', '--aptopt=APT::Install-Recommends "false"']
    words += [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "doc", "locale")]
    words.append("--dpkgopt=force-unsafe-io")
    sources = [f"deb [signed-by={KEYRING}] {uri} trixie main"]
    if sid:
        sources.append(f"deb [signed-by={KEYRING}] {uri} sid main")
        pins = "Package: *\nPin: release n=sid\nPin-Priority: -1\n"
        pins += "".join(f"\nPackage: {name}\nPin: release n=sid\nPin-Priority: 600\n" for name in sid)
        put(BASE / "pins", pins)
        preferences = '"$1/etc/apt/preferences.d'
        words.append(f'--setup-hook=mkdir -p {preferences}"; cp {BASE}/pins {preferences}/testbed"')
    words.append(f"--customize-hook={hook}")
    # The finished root does not know the mirror, nor how to reach it.
    known = ("sources.list", "sources.list.d/*", "apt.conf.d/99mmdebstrap")
    words.append("--customize-hook=rm -f " + " ".join(f'"$1"/etc/apt/{name}' for name in known))
    words += ["trixie", str(target), *sources]
    log = BASE / f"build-{target.name}.log"
    with open(log, "w") as file:
        done = subprocess.run(
            ["nice", "-n", "10", *words], stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=900, check=False
        )
    if done.returncode:
        raise Problem(f"mmdebstrap: exit {done.returncode}; the end of {log}:\n{log.read_text()[-3000:]}")


def _layers() -> None:
    """Per scheduler a layer of whiteouts over its programs, so that what looks for them finds what is there."""
    for feature, packages in FEATURES.items():
        listing = sh("chroot", ROOTFS, "dpkg", "-L", *packages).splitlines()
        for line in (*listing, *EXTRA_PROGRAMS.get(feature, ())):
            covered = LAYERS / f"no-{feature}" / line.lstrip("/")
            is_program = re.match(r"/usr/(local/)?s?bin/.", line) and not (ROOTFS / line.lstrip("/")).is_dir()
            if is_program and not os.path.lexists(covered):
                covered.parent.mkdir(parents=True, exist_ok=True)
                os.mknod(covered, stat.S_IFCHR, os.makedev(0, 0))


def _image() -> None:
    """standard.sif, made by the apptainer that will run it, and the same root as the plain folder `standard`."""
    script = (
        f"mount --bind {BASE} {ROOTFS}/mnt; mount -t proc proc {ROOTFS}/proc; mount -t tmpfs tmpfs {ROOTFS}/tmp;"
        f"exec chroot {ROOTFS} apptainer -q build --force --mksquashfs-args '{SQUASH}' "
        f"/mnt/images/standard.sif /mnt/{IMAGE_ROOT.name}"
    )
    own_mounts = ("unshare", "--mount", "--propagation", "private", "--")
    sh("nice", "-n", "10", *own_mounts, "bash", "-ec", script, timeout=300)
    IMAGE_ROOT.rename(IMAGES / "standard")
