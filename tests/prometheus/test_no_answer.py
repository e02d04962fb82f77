"""Whatever stands at Prometheus' address: no data, with words that say what to do, and never a 0."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from diffusion_operator.adapters.metrics import NOT_CONFIGURED, ModelKey
from diffusion_operator.adapters.prometheus.failures import Reason
from diffusion_operator.adapters.prometheus.readings import PrometheusMetrics
from diffusion_operator.adapters.prometheus.settings import PrometheusSettings
from diffusion_operator.core.gates import judge
from diffusion_operator.core.gates.evidence import Evidence
from diffusion_operator.core.rollout import Window
from diffusion_operator.core.verdict import Outcome, Unreadable
from prometheus_client import CollectorRegistry

from tests.prometheus.fakes import EMPTY, Asked, Impostor, Said, Silence
from tests.prometheus.test_readings import POLICY

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
WINDOW = Window(revision="new", since=NOW - timedelta(hours=20), guard_since=NOW - timedelta(minutes=7), guard_index=3)
SCRAPE_IT = {"status": "error", "errorType": "bad_data", "error": "parse error: unexpected end of input"}


async def why(settings: PrometheusSettings, registry: CollectorRegistry | None = None) -> str:
    """What one reading says; all of its parts say the same, and hold the rollout."""
    async with PrometheusMetrics(settings, registry=registry or CollectorRegistry()) as metrics:
        found = await metrics.readings(ModelKey("stories", "teller"), (WINDOW,), ar="ar", policy=POLICY, now=NOW)
    reading = found["new"]
    parts = {
        *(reading.quality.pairs, reading.quality.repetition),
        *(
            part
            for speed in (reading.speed, reading.guard)
            for part in (speed.first_token, speed.latency, speed.errors)
        ),
    }
    (said,) = parts
    assert isinstance(said, Unreadable)
    verdicts = judge(POLICY.gates, Evidence(quality=reading.quality, speed=reading.speed, guard=reading.guard))
    assert {one.outcome for one in verdicts if one.gate in POLICY.gates} == {Outcome.ERROR}
    return said.why


def at(url: str, **more: object) -> PrometheusSettings:
    return PrometheusSettings(url=url, timeout_seconds=0.5, **more)


ANSWERS: dict[str, tuple[Said, str]] = {
    "a login page": (Said(302, "", {"Location": "https://sso.example.com/login?to=x"}), "sso.example.com/login"),
    "a proxy's page": (Said(200, "<html><body>Welcome</body></html>"), "with <html><body>Welcome</body></html>"),
    "nothing": (Said(200, ""), "with nothing"),
    "another program's JSON": (Said.of({"ok": True}), "does not answer like Prometheus"),
    "JSON that is no object": (Said.of([1, 2]), "does not answer like Prometheus"),
    "half of an answer": (Said(200, json.dumps(EMPTY)[:30]), "does not answer like Prometheus"),
    "an answer with a warning": (Said.of({**EMPTY, "warnings": ["store-2 is down"]}), "store-2 is down"),
    "a scalar": (Said.of({"status": "success", "data": {"resultType": "scalar"}}), "does not answer like Prometheus"),
    "elements without labels": (
        Said.of({"status": "success", "data": {"result": [{"metric": {}, "value": [1, "1"]}]}}),
        "could not be read",
    ),
    "no token": (Said(401, "who are you"), "does not let us in (HTTP 401: who are you)"),
    "too few rights": (Said(403, ""), "--prometheus-bearer-token-file"),
    "a wrong path": (Said(404, "404 page not found"), "without /api/v1"),
    "no POST": (Said(405, ""), "answers POST"),
    "a query that is too much": (Said.of(SCRAPE_IT, 400), "refuses the query (HTTP 400: parse error"),
    "too many requests": (Said(429, ""), "overloaded"),
    "a dead backend": (Said(503, "no healthy upstream"), "no healthy upstream"),
    "an error inside": (Said(500, "boom"), "HTTP 500: boom"),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_an_answer_that_is_none_is_no_data(case: str):
    answer, said = ANSWERS[case]
    registry = CollectorRegistry()
    with Impostor(lambda _: answer) as impostor:
        assert said in await why(at(impostor.url), registry)

    counted = [
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "diffusion_operator_prometheus_failures_total"
    ]
    assert sum(counted) == 1
    assert len(counted) == len(Reason)


async def test_nobody_at_the_address():
    with Silence() as closed:
        pass
    assert "Connection refused" in await why(at(closed.url))
    assert "no-such-host.invalid" in await why(at("http://no-such-host.invalid:9090"))


async def test_one_that_hangs_is_waited_for_only_so_long():
    with Silence() as silence:
        assert "did not answer in 0.5 s" in await why(at(silence.url))


async def test_one_that_answers_byte_by_byte_is_not_waited_for_for_ever():
    with Silence(drip=b" ") as dripping:
        assert "did not answer in 0.5 s" in await why(at(dripping.url))


async def test_while_one_hangs_the_event_loop_goes_on_and_later_looks_do_not_queue_up():
    with Silence() as silence:
        settings = at(silence.url)
        async with PrometheusMetrics(settings, registry=CollectorRegistry()) as metrics:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.01)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            looks = [
                metrics.readings(ModelKey("stories", f"m{n}"), (WINDOW,), ar="ar", policy=POLICY, now=NOW)
                for n in range(40)
            ]
            found = await asyncio.gather(*looks)
            again = await metrics.readings(ModelKey("stories", "m"), (WINDOW,), ar="ar", policy=POLICY, now=NOW)
            ticking.cancel()

    assert ticks > 10
    assert all(isinstance(one["new"].speed.errors, Unreadable) for one in (*found, again))


async def test_without_an_address_the_words_say_how_to_give_one():
    assert await why(PrometheusSettings()) == NOT_CONFIGURED
    elsewhere = await why(PrometheusSettings(namespace_urls={"poems": "http://127.0.0.1:9"}))
    assert elsewhere == f"in namespace stories, {NOT_CONFIGURED}"


async def test_a_namespace_asks_its_own_prometheus_with_all_that_it_needs():
    with Impostor(lambda _: Said()) as mine, Impostor(lambda _: Said()) as others:
        settings = PrometheusSettings(url=others.url, namespace_urls={"stories": f"{mine.url}/base/"})
        await why(settings)

    assert others.asked == []
    first = mine.asked[0]
    assert first.path == "/base/api/v1/query"
    assert first.form["time"] == [f"{NOW.timestamp():.3f}"]
    assert first.form["timeout"] == ["20"]
    assert "max_over_time" in first.form["query"][0]
    assert "[72000000ms]" in first.form["query"][0]
    assert "[420000ms]" in first.form["query"][0]


async def test_the_token_is_read_anew_for_each_query(tmp_path: Path):
    token = tmp_path / "token"
    with Impostor(lambda _: Said()) as impostor:
        settings = at(impostor.url, bearer_token_file=token)
        assert "cannot be read" in await why(settings)
        token.write_text("first\n")
        await why(settings)
        token.write_text("second")
        await why(settings)
        token.write_text("")
        assert "must be one word" in await why(settings)

    sent = {asked.headers.get("Authorization") for asked in impostor.asked}
    assert sent == {"Bearer first", "Bearer second"}


async def test_a_certificate_is_checked_by_the_ca_that_was_given(tmp_path: Path, certificate: Callable[[], Path]):
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own = certificate()
    context.load_cert_chain(own)
    with Impostor(lambda _: Said(), tls=context) as impostor:
        assert "--prometheus-ca-file" in await why(at(impostor.url))
        assert "does not scrape the gateways" in await why(at(impostor.url, ca_file=own))
        assert "does not scrape the gateways" in await why(at(impostor.url, insecure=True))
        assert "gone.crt" in await why(at(impostor.url, ca_file=tmp_path / "gone.crt"))


async def test_nobody_is_suspicious_while_prometheus_is_away():
    def answer(_: Asked) -> Said:
        return Said(503)

    with Impostor(answer) as impostor:
        async with PrometheusMetrics(at(impostor.url), registry=CollectorRegistry()) as metrics:
            assert await metrics.suspicious(now=NOW) == frozenset()
    assert len(impostor.asked) == 1


async def test_one_odd_series_does_not_hide_who_else_is_suspicious():
    odd, right = {"model": "storyteller"}, {"model_namespace": "stories", "model": "storyteller"}
    rows = [{"metric": metric, "value": [0, "1"]} for metric in (odd, {}, right)]

    def answer(_: Asked) -> Said:
        return Said.of({"status": "success", "data": {"resultType": "vector", "result": rows}})

    with Impostor(answer) as impostor:
        async with PrometheusMetrics(at(impostor.url), registry=CollectorRegistry()) as metrics:
            assert await metrics.suspicious(now=NOW) == {ModelKey("stories", "storyteller")}
            rows[:] = ["nonsense"]
            assert await metrics.suspicious(now=NOW) == frozenset()
