"""Where values come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptb_tui.core import settings
from ptb_tui.core.errors import ConfigError


def test_env_file_wins_for_our_names_and_the_environment_fills_gaps(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("POST_TRAIN_BENCH_RESULTS_DIR='/a b'\nOPENAI_API_KEY=from-file # why\nEMPTY_KEY=\n")
    environ = {
        "POST_TRAIN_BENCH_RESULTS_DIR": "/env",
        "OPENAI_API_KEY": "from-env",
        "EMPTY_KEY": "kept-value",
        "HF_TOKEN": "hf_x",
        "XDG_CONFIG_HOME": str(tmp_path / "cfg"),
        "PATH": "/bin",
    }
    read = settings.load(cwd=tmp_path, environ=environ)
    assert str(read.results) == "/a b" and read.origins["OPENAI_API_KEY"] == str(tmp_path / ".env")
    assert read.values["OPENAI_API_KEY"] == "from-file" and read.values["EMPTY_KEY"] == "kept-value"
    assert read.origins["HF_TOKEN"] == "environment" and "PATH" not in read.values
    assert set(read.secrets()) == {"OPENAI_API_KEY", "EMPTY_KEY"}, "short values would blot out ordinary words"


def test_order_of_env_files(tmp_path: Path) -> None:
    home = tmp_path / "cfg" / "ptb-tui"
    home.mkdir(parents=True)
    for name in ("named", "other"):
        (tmp_path / name).write_text(f"POST_TRAIN_BENCH_RESULTS_DIR=/{name}\n")
    (home / ".env").write_text("POST_TRAIN_BENCH_RESULTS_DIR=/beside\n")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "cfg"), "PTB_ENV_FILE": str(tmp_path / "other")}
    assert str(settings.load(cwd=tmp_path, environ=environ, env_file=tmp_path / "named").results) == "/named"
    assert str(settings.load(cwd=tmp_path, environ=environ).results) == "/other"
    del environ["PTB_ENV_FILE"]
    assert str(settings.load(cwd=tmp_path, environ=environ).results) == "/beside"


def test_mistakes(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "cfg")}
    with pytest.raises(ConfigError, match="POST_TRAIN_BENCH_RESULTS_DIR is not set"):
        _ = settings.load(cwd=tmp_path, environ=environ).results
    with pytest.raises(ConfigError, match="no such file"):
        settings.load(cwd=tmp_path, environ=environ, env_file=tmp_path / "none")
    (tmp_path / ".env").write_text("GOOD=1\nsecret value here\n")
    with pytest.raises(ConfigError, match="line 2") as caught:
        settings.load(cwd=tmp_path, environ=environ)
    assert "secret value" not in caught.value.message
    (tmp_path / ".env").unlink()
    (tmp_path / "cfg" / "ptb-tui").mkdir(parents=True)
    (tmp_path / "cfg" / "ptb-tui" / "config.toml").write_text("[sites.a]\nhots = 'x'\n")
    with pytest.raises(ConfigError, match="did you mean"):
        settings.load(cwd=tmp_path, environ=environ)
