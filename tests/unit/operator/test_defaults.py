"""What the descriptions promise is what happens."""

import re

import pytest
from diffusion_operator.api.crd import resource_schema
from diffusion_operator.core import defaults

from tests.unit.operator.test_crd import walk

SPEC = dict(walk(resource_schema()["properties"]["spec"]))

PROMISED = {
    ".limits.maxBatchSize": defaults.MAX_BATCH_SIZE,
    ".limits.batchWindow": defaults.BATCH_WINDOW,
    ".limits.queueSize": defaults.QUEUE_SIZE,
    ".limits.requestTimeout": defaults.REQUEST_TIMEOUT,
    ".resources.cpu": defaults.CPU,
    ".resources.memory": defaults.MEMORY,
    ".resources.shmSize": defaults.SHM_SIZE,
    ".replicas": defaults.REPLICAS,
    ".rollout.initialPercent": defaults.INITIAL_PERCENT,
}


@pytest.mark.parametrize(("path", "value"), PROMISED.items(), ids=PROMISED.keys())
def test_the_default_is_the_one_that_is_documented(path: str, value: object) -> None:
    assert re.search(rf"Default: {value}\.", SPEC[path]["description"])
