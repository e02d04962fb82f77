"""What the samplers know is written down once, and the page for users shows it."""

from pathlib import Path

from diffusion_worker.config import SamplerSettings
from diffusion_worker.samplers.capabilities import EFFECTS, table

PAGE = Path(__file__).parents[3] / "docs" / "samplers.md"


def test_every_setting_is_known_to_a_sampler() -> None:
    known = {setting for effects in EFFECTS.values() for setting in effects}
    assert known == set(SamplerSettings.model_fields) - {"name"}


def test_the_page_has_the_table_as_it_is() -> None:
    assert table() in PAGE.read_text(encoding="utf-8"), f"put this into {PAGE.name}:\n{table()}"
