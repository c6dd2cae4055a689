"""Runs the answer server where it can do no harm, with the kernel's namespaces alone (E §1.7.3).

    python -I jail.py FD SECONDS ROOT [PACKAGES …]

Inside there is a root in memory with the system's directories read-only, no /proc, no network, no process but the
server's own, and the user nobody. FD is the listening socket, SECONDS the limit of one connection, ROOT an empty
folder to mount on, PACKAGES are folders to look in for what answers may import. Exit status 3: it cannot be done here.
"""

import contextlib
import ctypes
import glob
import os
import re
import shutil
import signal
import site
import sys

NOBODY = 65534
CANNOT = 3
_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 1 << 17, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30
_RDONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _REC, _PRIVATE, _RELATIME = 1, 2, 4, 32, 4096, 16384, 1 << 18, 1 << 21
_ALIKE = 2 | 4 | 8 | 1024 | 2048  # nosuid, nodev, noexec, noatime, nodiratime: statvfs and mount use the same bits
_ST_RELATIME = 4096
_DETACH = 2
_SET_DEATH_SIGNAL, _SET_NO_NEW_PRIVILEGES = 1, 38
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_PACKAGES = ("numpy", "numpy.libs")
_FILES = ("server.py", "wire.py")
_SIZE = "size=512m,"

libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, "{}: {}".format(what, os.strerror(number)))


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """The system call. OSError."""
    arguments = [text.encode() or None for text in (source, target, kind)]
    _check(libc.mount(*arguments, ctypes.c_ulong(flags), data.encode() or None), "mount {}".format(target))


def _mounts_in(target: str) -> "list[str]":
    """The mount points at and below `target`."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        points = [re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line.split()[4]) for line in file]
    return [point for point in points if point == target or point.startswith(target + "/")]


def bind(source: str, target: str, device: bool = False) -> None:
    """Show a file or folder at `target`, read-only with everything that is mounted in it."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "ab").close()
    mount(source, target, "", _BIND | _REC)
    for point in dict.fromkeys(_mounts_in(target)):
        has = os.statvfs(point).f_flag
        kept = (has & _ALIKE) | (_RELATIME if has & _ST_RELATIME else 0)
        mount("", point, "", _REMOUNT | _BIND | _NOSUID | kept | (0 if device else _RDONLY | _NODEV))


def show_system(root: str, base: str) -> None:
    """The system's folders, the interpreter's and a few devices; links stay links."""
    shown: "list[str]" = []
    for path in (*_SYSTEM, base, *_DEVICES):
        if os.path.islink(path):
            os.symlink(os.readlink(path), root + path)
        elif os.path.exists(path) and not any(path.startswith(folder + "/") for folder in shown):
            bind(path, root + path, device=path in _DEVICES)
            shown.append(path)


def swap_packages(root: str, base: str, places: "list[str]") -> None:
    """Installed packages, among which the data set may be, give way to the few that answers may use."""
    for prefix in dict.fromkeys((base, "/usr", "/usr/local")):
        for folder in glob.glob("{}/lib*/python3*/*-packages".format(glob.escape(root + prefix))):
            mount("tmpfs", folder, "tmpfs", _NOSUID | _NODEV, "size=1m,mode=755")
    own = [root + folder for folder in site.getsitepackages([base]) if os.path.isdir(root + folder)]
    for name in _PACKAGES if own else ():
        found = [place for place in places if os.path.isdir(os.path.join(place, name))]
        if found:
            bind(os.path.join(found[0], name), os.path.join(own[0], name))


def build(root: str, here: str, places: "list[str]") -> None:
    """Fill the new root and make it ours. OSError."""
    base = os.path.realpath(sys.base_prefix)
    mount("", "/", "", _REC | _PRIVATE)
    mount("tmpfs", root, "tmpfs", _NOSUID | _NODEV, _SIZE + "mode=755")
    os.makedirs(root + "/dev/shm")
    show_system(root, base)
    swap_packages(root, base, places)
    os.mkdir(root + "/answers")
    for name in _FILES:
        shutil.copyfile(os.path.join(here, name), os.path.join(root, "answers", name))
    for name in ("tmp", "dev/shm"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
        mount("tmpfs", os.path.join(root, name), "tmpfs", _NOSUID | _NODEV, _SIZE + "mode=1777")
    os.mkdir(root + "/old")
    pivot_root = _PIVOT_ROOT[os.uname().machine]
    _check(libc.syscall(pivot_root, root.encode(), (root + "/old").encode()), "pivot_root")
    os.chdir("/")
    _check(libc.umount2(b"/old", _DETACH), "umount of the old root")
    os.rmdir("/old")
    mount("", "/", "", _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)


def separate() -> None:
    """Leave all namespaces but the user's where root may, else the user's as well. OSError."""
    uid, gid = os.geteuid(), os.getegid()
    rest = _NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET
    if uid == 0 and libc.unshare(rest) == 0:
        return
    _check(libc.unshare(rest | _NEWUSER), "unshare")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", "{} {} 1".format(NOBODY, uid)),
        ("gid_map", "{} {} 1".format(NOBODY, gid)),
    ):
        with open("/proc/self/" + name, "w", encoding="ascii") as file:
            file.write(text)


def become_nobody() -> None:
    """Give up root and the way back to it. OSError."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    _check(libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")


def main(number: str, seconds: str, root: str, *places: str) -> int:
    """Build the jail, run the server in it and wait for its end."""
    here = os.path.dirname(os.path.abspath(__file__))
    python = os.path.realpath(sys.executable)
    try:
        separate()
    except OSError as error:
        print("the answer sandbox cannot be built: {}".format(error), file=sys.stderr)
        return CANNOT
    child = os.fork()
    if child:
        os.close(int(number))
        _, status = os.waitpid(child, 0)
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    try:
        libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        build(root, here, list(places))
        become_nobody()
        libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)  # a change of user has cleared it
        os.set_inheritable(int(number), True)
        environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/tmp", "OMP_NUM_THREADS": "1"}
        os.execve(python, [python, "-I", "-B", "/answers/server.py", "--fd", number, seconds], environ)
    except (OSError, KeyError) as error:
        with contextlib.suppress(OSError):
            print("the answer sandbox cannot be built: {}".format(error), file=sys.stderr, flush=True)
    os._exit(CANNOT)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
