"""What a visitor sees first: `make demo` tells a story and says how to go on."""

import subprocess
import sys

from cluster.paths import REPOSITORY


def test_the_demo_streams_a_story_and_says_how_to_go_on(cluster):
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    story, _, rest = done.stdout.partition("NAME")
    assert len(story.split()) > 20, story
    assert "storyteller" in rest
    assert f"{cluster.url}/v1" in rest
    assert "make clean-cluster" in rest


def test_the_printed_columns_tell_phase_readiness_weight_rollout_and_address(cluster, eventually):
    def columns():
        header, row, *_ = cluster.kubectl("get", "dm", "storyteller").splitlines()
        assert header.split() == ["NAME", "PHASE", "READY", "WEIGHT", "ROLLOUT", "STEP", "GATES", "URL", "AGE"]
        return row.split()[2:5]

    eventually(lambda: columns() == ["True", "100", "Promoted"], "the storyteller has all requests")


def test_explain_reads_like_documentation(cluster):
    text = cluster.kubectl("explain", "dm.spec")

    assert "autoregressive" in text
    assert "docs/external-fallback.md" in cluster.kubectl("explain", "dm.spec.fallback.endpoint")
