"""The host's part of an isolated view: its programs, a small /etc, and the interpreter that runs us; all read-only.

Every function returns arguments of bubblewrap. What is not named here is not inside, above all homes of people.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import sys
from collections.abc import Iterable
from pathlib import Path

from ptb_tui.sandbox.base import refuse

OWN_ETC = Path(__file__).with_name("etc")  # names inside are the same on every host: user ben, host ptb
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",  # Debian's and Red Hat's links out of /usr/bin and back, CUDA's among them
    "localtime",
    "mime.types",
    "protocols",
    "services",
    "OpenCL",
    "ca-certificates.conf",
    "pki/ca-trust",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/tls/openssl.cnf",
    "ssl/certs",  # never ssl itself: ssl/private holds the host's keys
    "ssl/cert.pem",
    "ssl/openssl.cnf",
)
_PROC_READ_ONLY = ("sys", "irq", "bus", "acpi", "scsi", "fs", "driver", "sysrq-trigger", "mtrr")
_SYS = ("devices/system/cpu", "devices/system/node")  # what torch and OpenMP ask for the shape of the machine
_SYS_GPU = ("bus/pci", "class", "devices", "module")  # what NCCL and NVML ask besides


def programs(root: Path = Path("/")) -> list[str]:
    """/usr, and /bin, /lib … as on the host: links where it has links, directories where it has directories."""
    words = ["--ro-bind", str(root / "usr"), "/usr"]
    for name in _MERGED:
        path = root / name
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), f"/{name}"]
        elif path.is_dir():
            words += ["--ro-bind", str(path), f"/{name}"]
    return words


def settings(*, open_network: bool, gpus: bool) -> list[str]:
    """/etc and /sys. Names of people and the host's resolver stay outside unless the network is open."""
    words: list[str] = []
    for name in _ETC:
        words += _shown(Path("/etc") / name)
    for name in ("passwd", "group", "nsswitch.conf"):
        words += ["--ro-bind", str(OWN_ETC / name), f"/etc/{name}"]
    if open_network and os.path.exists("/etc/hosts"):
        words += ["--ro-bind", "/etc/hosts", "/etc/hosts"]
    else:
        words += ["--ro-bind", str(OWN_ETC / "hosts"), "/etc/hosts"]
    if open_network:
        words += _shown(Path("/etc/resolv.conf"))
    for name in _SYS_GPU if gpus else _SYS:
        words += _shown(Path("/sys") / name)
    return words


def kernel() -> list[str]:
    """A /proc of the sandbox's own, its switches read-only.

    The kernel asks only for user 0 of the machine to write them, no capability, and a sandbox started by root still
    is that user; `kernel/core_pattern` would be a program that the host runs as root.
    """
    words = ["--proc", "/proc"]
    for name in _PROC_READ_ONLY:
        words += _shown(Path("/proc") / name)
    return words


def _shown(path: Path) -> list[str]:
    return ["--ro-bind", str(path), str(path)] if os.access(path, os.R_OK) else []


def interpreter_prefixes() -> tuple[Path, ...]:
    """The directories of the running interpreter and of the environment it runs in."""
    return tuple(Path(name) for name in dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix)))


def private_places() -> tuple[Path, ...]:
    """Directories of the operator that no mount may bring in."""
    homes = {os.environ.get("HOME", "")}
    with contextlib.suppress(KeyError):  # a user without an entry, as in many containers
        homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    places = []
    for home in sorted(homes - {"", "/"}):
        below = (Path(home), Path(home, ".ssh"), Path(home, ".config"), Path(home, ".local/share"))
        places += [*below, *(path.resolve() for path in below)]
    return tuple(places)


def prefixes(wanted: Iterable[Path], private: Iterable[Path]) -> list[str]:
    """Binds of interpreter prefixes as arguments of bubblewrap, which shows the host's /usr anyway. StepError as
    `prefix_folders`."""
    words: list[str] = []
    for prefix in prefix_folders(wanted, private):
        if prefix != Path("/usr") and Path("/usr") not in prefix.parents:
            words += ["--ro-bind", str(prefix), str(prefix)]
    return words


def prefix_folders(wanted: Iterable[Path], private: Iterable[Path]) -> list[Path]:
    """Interpreter prefixes at their own paths, and where they really are when the path goes through links.

    StepError(cause="sandbox") when one is absent, or holds one of the `private` directories.
    """
    private, found = tuple(private), dict.fromkeys(path for given in wanted for path in (given, given.resolve()))
    for prefix in found:
        if not os.path.isdir(prefix):
            raise refuse(f"Python's directory {prefix} cannot be read by this user")
        held = [place for place in private if place == prefix or prefix in place.parents]
        if held and prefix != Path("/usr"):
            raise refuse(
                f"Python lives in {prefix}, which also holds {held[0]}: a sandbox would show the operator's files",
                hint="run ptb-tui from a virtual environment in a directory of its own",
            )
    return list(found)
