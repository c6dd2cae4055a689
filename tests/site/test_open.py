from pathlib import Path

import pytest

from ptb_tui.core.config import Config, SiteConfig
from ptb_tui.core.errors import ConfigError
from ptb_tui.core.query import RunsQuery
from ptb_tui.core.settings import Settings
from ptb_tui.site.open import open_site
from tests.site.far_end import argv


def settings(**sites: SiteConfig) -> Settings:
    return Settings({}, {}, Config(sites=sites), None, Path("/x/config.toml"), "op")


async def test_sites_by_name(tmp_path: Path) -> None:
    site = await open_site(settings(lab=SiteConfig(transport="command", command=argv(tmp_path))), "lab")
    try:
        assert site.name == "lab"
        assert (await site.ask(RunsQuery())).runs == ()
    finally:
        await site.close()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (SiteConfig(transport="ssh", host="h"), r"\[sites\.lab\]: transport `ssh` is not available yet"),
        (SiteConfig(transport="command"), r"\[sites\.lab\]: transport `command` needs `command`"),
        (SiteConfig(transport="pigeon"), "unknown transport 'pigeon'"),
        (SiteConfig(), "POST_TRAIN_BENCH_RESULTS_DIR is not set"),
    ],
)
async def test_sites_that_cannot_be_opened(config: SiteConfig, words: str) -> None:
    if config.transport == "local":
        pytest.importorskip("ptb_tui.site.local")
    with pytest.raises(ConfigError, match=words):
        await open_site(settings(lab=config), "lab")
    with pytest.raises(ConfigError, match="known sites: lab, local"):
        await open_site(settings(lab=config), "moon")
