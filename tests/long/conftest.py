"""The long tests share the cluster of the end-to-end tests."""

from tests.e2e.conftest import cluster, eventually_fixture, fragile

__all__ = ["cluster", "eventually_fixture", "fragile"]
