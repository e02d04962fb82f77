"""Ten idle minutes cause no write to the API server by the operator."""

import time

from examples import demo
from tests.audit import operator_writes


def test_ten_idle_minutes_have_no_write_by_the_operator():
    demo.prepare()
    time.sleep(30)
    before = operator_writes()

    time.sleep(600)

    assert before > 0, "the audit log shows no write by the operator at all: wrong user name?"
    assert operator_writes() == before
