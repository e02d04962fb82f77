"""When there is too much, clients learn when to come back: from how fast answers end, and how many are under way."""

import asyncio

from tests.gateway.fake_triton import says, triton_says, waits_for
from tests.gateway.stack import Stack, eventually, started

BODY = {"model": "story", "prompt": "Once"}


async def test_the_pool_knows_how_fast_pods_answer_and_what_they_still_have_to_do(stack: Stack) -> None:
    go_on = asyncio.Event()
    arm = await stack.arm("stable", says("x"), percent=100)
    await stack.route(arm)
    target = f"127.0.0.2:{arm.port}"
    assert stack.gateway.pool.backlog([target]) == (0, 0.0)
    for _ in range(5):
        await stack.http.post("/v1/completions", json=BODY)
    await eventually(lambda: stack.gateway.pool.backlog([target])[1] >= 5 / 60)
    arm.pods[0].script = waits_for(go_on, before=(), after=("x",))
    slow = [asyncio.create_task(stack.http.post("/v1/completions", json=BODY)) for _ in range(3)]
    await eventually(lambda: stack.gateway.pool.backlog([target])[0] == 3)
    assert stack.gateway.pool.backlog(["127.0.0.9:1"]) == (0, 0.0)
    go_on.set()
    await asyncio.gather(*slow)
    await eventually(lambda: stack.gateway.pool.backlog([target])[0] == 0)


async def test_a_pod_that_refuses_has_answered_nothing(stack: Stack) -> None:
    arm = await stack.arm("stable", triton_says("Exceeds maximum queue size"), percent=100)
    await stack.route(arm)
    response = await stack.http.post("/v1/completions", json=BODY)
    assert (response.status_code, response.headers["retry-after"]) == (429, "1")
    await eventually(lambda: stack.gateway.pool.in_flight(f"127.0.0.2:{arm.port}") == 0)
    assert stack.gateway.pool.backlog([f"127.0.0.2:{arm.port}"]) == (0, 0.0)


async def test_at_the_limit_of_requests_a_fast_service_asks_for_less_patience() -> None:
    async with started(max_in_flight=1) as stack:
        go_on = asyncio.Event()
        arm = await stack.arm("stable", says("x"), percent=100)
        await stack.route(arm)
        for _ in range(30):
            assert (await stack.http.post("/v1/completions", json=BODY)).status_code == 200
        arm.pods[0].script = waits_for(go_on, before=(), after=("x",))
        slow = asyncio.create_task(stack.http.post("/v1/completions", json=BODY))
        await eventually(lambda: len(arm.pods[0].requests) == 31)
        refused = await stack.http.post("/v1/completions", json=BODY)
        assert refused.status_code == 429
        # 30 answers within the last minute: one is over in two seconds at most.
        assert int(refused.headers["retry-after"]) <= 2
        go_on.set()
        await slow
