"""The recipe of the hosts, without building one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed import network, rootfs
from tests.testbed.hosts import HOSTS, with_needs
from tests.testbed.place import Problem


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("debian.sources", "Types: deb\n# a note\nURIs: http://mirror.test/debian\nSuites: bookworm\n"),
        ("debian.sources", "Types: deb\nURIs: http://other.test/security http://mirror.test/debian/\n"),
        ("main.list", "deb http://vendor.test/apt stable main\ndeb http://mirror.test/debian bookworm main\n"),
        ("main.list", "deb [arch=amd64 signed-by=/k] http://mirror.test/debian/ bookworm main\n"),
    ],
)
def test_the_mirror_is_the_one_of_this_machine(tmp_path: Path, name: str, text: str) -> None:
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    (folder / "a-vendor.sources").write_text("Types: deb\nURIs: https://vendor.test/node\nSuites: x\n")
    (folder / name).write_text(text)
    assert rootfs.mirror(tmp_path) == "http://mirror.test/debian"


def test_without_a_mirror_the_build_says_where_it_looked(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("# deb http://mirror.test/debian bookworm main\n")
    with pytest.raises(Problem, match=r"sources\.list"):
        rootfs.mirror(tmp_path)


def test_a_host_comes_up_after_what_it_needs() -> None:
    assert with_needs(("far", "node1")) == ("jump", "far", "head", "node1")
    with pytest.raises(Problem, match="no such host: nowhere"):
        with_needs(("nowhere",))


def test_addresses_are_unique_and_on_the_bridge_of_the_host() -> None:
    addresses = [address for host in HOSTS.values() for address in (host.ip, host.second) if address]
    assert len(set(addresses)) == len(addresses)
    assert all(host.ip.startswith("10.77.0." if host.bridge == "br0" else "10.78.0.") for host in HOSTS.values())


def test_testbeds_of_two_folders_or_names_share_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()
    for folder, name in (("/a", "ptb"), ("/b", "ptb"), ("/b", "other")):
        monkeypatch.setattr(network, "BASE", Path(folder))
        monkeypatch.setattr(network, "NAME", name)
        names.add(network.namespace("ws"))
    assert len(names) == 3
