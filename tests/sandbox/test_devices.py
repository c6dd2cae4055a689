from pathlib import Path

import pytest

from ptb_tui.core.errors import StepError
from ptb_tui.sandbox.devices import minors, nodes

INFORMATION = "Model: \t\t NVIDIA H100\nIRQ:   \t\t 0\nGPU UUID: \t GPU-{uuid}\nDevice Minor: \t {minor}\n"


@pytest.fixture
def machine(tmp_path: Path) -> tuple[Path, Path]:
    dev, driver = tmp_path / "dev", tmp_path / "gpus"
    (dev / "nvidia-caps").mkdir(parents=True)
    for name in ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1", "nvidia2"):
        (dev / name).touch()
    for address, uuid, minor in (("0000:1b:00.0", "aa", 2), ("0000:43:00.0", "bb", 0), ("0000:52:00.0", "cc", 1)):
        (driver / address).mkdir(parents=True)
        (driver / address / "information").write_text(INFORMATION.format(uuid=uuid, minor=minor))
    return dev, driver


def names(found: tuple[tuple[Path, ...], bool]) -> list[str]:
    return [path.name for path in found[0] if path.name[6:].isdigit()]


def test_only_the_given_devices(machine: tuple[Path, Path]) -> None:
    assert minors(machine[1]) == [("GPU-aa", 2), ("GPU-bb", 0), ("GPU-cc", 1)]
    assert names(nodes(("0",), *machine)) == ["nvidia2"]
    assert names(nodes(("GPU-bb", "2"), *machine)) == ["nvidia0", "nvidia1"]
    assert {"nvidiactl", "nvidia-uvm", "nvidia-caps"} <= {path.name for path in nodes(("0",), *machine)[0]}
    assert nodes((), *machine) == ((), True)


def test_a_mig_instance_brings_all_and_says_so(machine: tuple[Path, Path], tmp_path: Path) -> None:
    found = nodes(("MIG-1234",), *machine)
    assert names(found) == ["nvidia0", "nvidia1", "nvidia2"] and not found[1]
    assert not nodes(("0",), machine[0], tmp_path / "absent")[1]


def test_a_gpu_that_does_not_exist_is_refused(machine: tuple[Path, Path], tmp_path: Path) -> None:
    for gpu in ("3", "GPU-zz", "", "-1", "0 ", "²"):
        with pytest.raises(StepError):
            nodes((gpu,), *machine)
    with pytest.raises(StepError):
        nodes(("0",), tmp_path / "absent", machine[1])
