"""`kubectl explain` reads like documentation, and the API server has the CRD as it is committed."""

from tests.api.server import Server, until


def test_the_short_name_explains_spec(server: Server) -> None:
    text = until(lambda: server.kubectl("explain", "dm.spec", check=False), what="the schema is published")
    assert "A block-diffusion language model, the autoregressive model behind it" in text
    assert "How a new diffusion revision takes over from what serves now." in " ".join(text.split())
    assert "<no description>" not in text


def test_every_level_has_descriptions(server: Server) -> None:
    until(lambda: server.kubectl("explain", "dm.spec", check=False), what="the schema is published")
    text = server.kubectl("explain", "dm", "--recursive")
    assert "initialPercent" in text
    for path in ("rollout", "limits.batchWindow", "sampler.name", "fallback", "resources.shmSize"):
        assert "<empty>" not in server.kubectl("explain", f"dm.spec.{path}")
