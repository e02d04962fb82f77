"""Five minutes without an API server: requests are answered all the time, and what was written last is heard at the end."""

import time

from examples import demo
from tests.e2e import gateways, harm
from tests.e2e.asking import Load
from tests.e2e.conftest import Cluster, eventually


def test_five_minutes_without_the_api_server_cost_no_request():
    cluster = Cluster(demo.prepare())
    eventually(cluster.everything_is_ready, "operator, gateways and both arms are ready")
    addresses = list(gateways.pods(cluster).values())
    tables = [gateways.routes(address, "storyteller") for address in addresses]

    with Load(cluster.url, model="storyteller", clients=2, requests=10_000) as load:
        with harm.api_server_away():
            time.sleep(300)
            assert [gateways.routes(address, "storyteller") for address in addresses] == tables
            assert load.incomplete == []
        eventually(cluster.everything_is_ready, "everything is Ready")
        load.wait_for_answers(10)

    assert load.unclear == []
    # It has not heard of the node for so long that it may call all its pods not ready, until the node speaks again. Workers are
    # asked all the same; but the gateways too lose their place behind the Service, and connections to it are refused.
    assert [ending for ending in load.incomplete if not ending.cut] == []
    assert set(gateways.pods(cluster).values()) == set(addresses), "no gateway was replaced"
