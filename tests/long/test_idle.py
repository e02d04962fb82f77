"""Ten idle minutes cause no write to the API server by the operator."""

import json
import time

from cluster.paths import StateFolder
from examples import demo


def operator_writes() -> int:
    count = 0
    with StateFolder.of_this_checkout().audit_log.open() as log:
        for line in log:
            event = json.loads(line)
            mine = event.get("user", {}).get("username", "").endswith(":diffusion-operator")
            count += (
                mine and event.get("stage") == "ResponseComplete" and event.get("verb") not in {"get", "list", "watch"}
            )
    return count


def test_ten_idle_minutes_have_no_write_by_the_operator():
    demo.prepare()
    time.sleep(30)
    before = operator_writes()

    time.sleep(600)

    assert before > 0
    assert operator_writes() == before
