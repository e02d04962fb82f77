"""Where the demo applies things: to the throw-away cluster, or to the one context that the user named."""

from pathlib import Path

import pytest

from cluster import deploy, images, lifecycle
from examples import demo

RECORD = """#!/bin/sh
echo "$(basename $0) $*" >> {log}
case "$*" in
  *"-o json"*) echo '{{"metadata": {{"generation": 2}}, "status": {{"observedGeneration": 2, "conditions": [{{"type": "Ready", "status": "True"}}], "routes": {{"arms": [{{"kind": "diffusion", "percent": 100}}]}}}}}}' ;;
esac
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Programs called kubectl and helm that write down how they were called; returns a reader of those lines."""
    log = tmp_path / "calls"
    log.touch()
    for name in ("kubectl", "helm"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(RECORD.format(log=log))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setattr(lifecycle, "up", lambda: pytest.fail("a named context must not start the throw-away cluster"))
    monkeypatch.setattr(
        images, "build", lambda registry=None: deploy.Images(*(f"{registry}/{part}:1" for part in ("o", "g", "w")))
    )
    return lambda: log.read_text().splitlines()


def test_every_command_names_the_users_context(calls, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBE_CONTEXT", "kind-dev")
    monkeypatch.setenv("REGISTRY", "registry.example/me")

    place = demo.prepare()

    assert place.url is None, "the gateway of a cluster that is not ours is reached through kubectl port-forward"
    assert any(line.startswith("helm") for line in calls())
    for line in calls():
        flag = "--context" if line.startswith("kubectl") else "--kube-context"
        assert f"{flag} kind-dev" in line
        assert f"--kubeconfig {tmp_path / 'kubeconfig'}" in line


def test_images_of_a_named_context_come_from_the_users_registry(calls, monkeypatch):
    monkeypatch.setenv("KUBE_CONTEXT", "kind-dev")
    monkeypatch.setenv("REGISTRY", "registry.example/me")

    demo.prepare()

    helm = next(line for line in calls() if line.startswith("helm"))
    assert "operator.image.registry=registry.example/me" in helm
    assert "operator.image.repository=o" in helm
    assert "NodePort" not in helm


def test_a_named_context_without_a_registry_is_refused_before_anything_is_applied(calls, monkeypatch, capsys):
    monkeypatch.setenv("KUBE_CONTEXT", "kind-dev")
    monkeypatch.delenv("REGISTRY", raising=False)
    monkeypatch.setattr("sys.argv", ["demo"])

    assert demo.main() == 1

    assert "REGISTRY=host/prefix" in capsys.readouterr().err
    assert calls() == []


def test_a_list_of_kubeconfigs_is_left_to_kubectl_and_helm(calls, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBE_CONTEXT", "kind-dev")
    monkeypatch.setenv("REGISTRY", "registry.example/me")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'one'}:{tmp_path / 'two'}")

    demo.prepare()

    assert calls()
    assert all("kind-dev" in line and "--kubeconfig" not in line for line in calls())


def test_a_context_that_does_not_answer_is_found_before_images_are_built(calls, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBE_CONTEXT", "nowhere")
    monkeypatch.setenv("REGISTRY", "registry.example/me")
    monkeypatch.setattr(images, "build", lambda registry=None: pytest.fail("built for nobody"))
    (tmp_path / "bin" / "kubectl").write_text("#!/bin/sh\necho 'context \"nowhere\" does not exist' >&2\nexit 1\n")

    with pytest.raises(deploy.DeployError, match='context "nowhere" does not exist'):
        demo.prepare()


def test_a_pending_release_on_a_cluster_of_the_users_may_be_somebody_elses(calls, monkeypatch):
    monkeypatch.setenv("KUBE_CONTEXT", "kind-dev")
    monkeypatch.setenv("REGISTRY", "registry.example/me")

    demo.prepare()

    assert not [line for line in calls() if "delete" in line]


def test_a_missing_program_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBE_CONTEXT", "kind-dev")
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(deploy.DeployError, match="kubectl and helm on PATH"):
        deploy.Target.named_by_user()


def test_without_a_named_context_the_users_own_kubeconfig_is_not_used(monkeypatch):
    monkeypatch.delenv("KUBE_CONTEXT", raising=False)

    assert deploy.Target.named_by_user() is None


def test_a_failing_command_is_reported_with_its_last_words(tmp_path):
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\necho 'context \"nowhere\" does not exist' >&2\nexit 1\n")
    program.chmod(0o755)
    target = deploy.Target(tmp_path / "config", "nowhere", program, program)

    with pytest.raises(deploy.DeployError, match=r'kubectl .*get pods failed: context "nowhere" does not exist'):
        target.kubectl("get", "pods")
