"""What the chart renders is valid Kubernetes and says what the values ask for."""

from pathlib import Path
from typing import Any

import pytest
from diffusion_gateway.settings import Settings
from kubernetes import client

from tests.chart.chart import CHART, EVERYTHING, NAMESPACE, REGISTRY, RELEASE, Rendered, helm, render, settings

MODELS = {
    "ClusterRole": client.V1ClusterRole,
    "ClusterRoleBinding": client.V1ClusterRoleBinding,
    "ConfigMap": client.V1ConfigMap,
    "CustomResourceDefinition": client.V1CustomResourceDefinition,
    "Deployment": client.V1Deployment,
    "NetworkPolicy": client.V1NetworkPolicy,
    "PodDisruptionBudget": client.V1PodDisruptionBudget,
    "Role": client.V1Role,
    "RoleBinding": client.V1RoleBinding,
    "Service": client.V1Service,
    "ServiceAccount": client.V1ServiceAccount,
}

# Everything that can be switched on, on: everything.yaml itself switches some objects off.
ALL_OBJECTS = {
    "crds.install": True,
    "rbac.create": True,
    "rbac.aggregateUserRoles": True,
    "operator.serviceAccount.create": True,
    "gateway.serviceAccount.create": True,
    "gateway.podDisruptionBudget.enabled": True,
}
RENDERINGS: dict[str, tuple[dict[str, Any], tuple[Path, ...]]] = {
    "defaults": ({}, ()),
    "every value set": ({}, (EVERYTHING,)),
    "every value and every object": (ALL_OBJECTS, (EVERYTHING,)),
    "one namespace": ({"watchNamespaces": ["stories"]}, ()),
    "policies and monitors with their defaults": (
        {
            "networkPolicy.enabled": True,
            "metrics.podMonitor.enabled": True,
            "metrics.prometheusRule.enabled": True,
            "metrics.dashboard.enabled": True,
        },
        (),
    ),
}


@pytest.fixture(params=RENDERINGS)
def rendered(request: pytest.FixtureRequest) -> Rendered:
    values, files = RENDERINGS[request.param]
    return render(values, files=files)


def test_helm_lint_finds_nothing():
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), f"--set=image.registry={REGISTRY}")
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), f"--values={EVERYTHING}")


def test_every_object_is_valid_and_has_no_unknown_field(rendered: Rendered):
    for item in rendered.objects:
        if item["kind"] not in {"PodMonitor", "PrometheusRule"}:  # not Kubernetes' own: no model of it here
            MODELS[item["kind"]].model_validate(item)


def test_every_object_has_the_common_labels_and_no_foreign_namespace(rendered: Rendered):
    for item in rendered.objects:
        labels = item["metadata"]["labels"]
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["app.kubernetes.io/instance"] == "diffusion-operator"
        assert labels["helm.sh/chart"].startswith("diffusion-operator-")
        assert item["metadata"].get("namespace", NAMESPACE) in {NAMESPACE, "stories", "poems"}


def test_no_two_objects_have_the_same_name(rendered: Rendered):
    names = [(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in rendered.objects]
    assert len(names) == len(set(names))


def test_every_selector_selects_the_pods_it_is_meant_for(rendered: Rendered):
    pods = {
        item["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: item["spec"]["template"][
            "metadata"
        ]["labels"]
        for item in rendered.of("Deployment")
    }
    selectors = [(item["metadata"]["labels"], item["spec"]["selector"]) for item in rendered.of("Service")]
    selectors += [
        (item["metadata"]["labels"], item["spec"]["selector"]["matchLabels"])
        for kind in ("Deployment", "PodDisruptionBudget", "PodMonitor")
        for item in rendered.of(kind)
    ]
    selectors += [
        (item["metadata"]["labels"], item["spec"]["podSelector"]["matchLabels"])
        for item in rendered.of("NetworkPolicy")
    ]
    for labels, selector in selectors:
        component = labels["app.kubernetes.io/component"]
        selected = {name for name, pod in pods.items() if selector.items() <= pod.items()}
        # Workers are not the chart's pods: only the operator makes them.
        assert selected == ({component} if component != "worker" else set())


def test_named_ports_exist_in_the_pods(rendered: Rendered):
    for _, spec in rendered.pod_specs():
        (container,) = spec["containers"]
        names = {port["name"] for port in container["ports"]}
        assert {
            container[probe]["httpGet"]["port"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")
        } <= names
    gateway = {"http", "admin"}
    assert {port["targetPort"] for item in rendered.of("Service") for port in item["spec"]["ports"]} <= gateway


def test_the_admin_port_is_in_no_service(rendered: Rendered):
    assert [port["name"] for item in rendered.of("Service") for port in item["spec"]["ports"]] == ["http"]


def test_user_labels_never_replace_what_selectors_need():
    mine = {"app.kubernetes.io/component": "mine", "app.kubernetes.io/name": "mine"}
    changed = render({"commonLabels": mine, "gateway.podLabels": mine})
    assert changed == render()


def test_a_new_chart_version_alone_replaces_no_pod():
    for item in render().of("Deployment"):
        labels = item["spec"]["template"]["metadata"]["labels"]
        assert not {"helm.sh/chart", "app.kubernetes.io/version"} & labels.keys()


def test_the_operator_is_one_pod_that_is_never_doubled():
    spec = render().one("Deployment", "diffusion-operator")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def flag(arguments: list[str], name: str) -> int:
    """The value of `name=value` among a program's arguments."""
    (value,) = (each.partition("=")[2] for each in arguments if each.startswith(f"{name}="))
    return int(value)


def test_a_gateway_update_loses_no_request():
    deployment = render({"gateway.preStopSeconds": 7, "gateway.drainSeconds": 90}).one(
        "Deployment", "diffusion-operator-gateway"
    )
    pod = deployment["spec"]["template"]["spec"]
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert pod["containers"][0]["lifecycle"]["preStop"] == {"sleep": {"seconds": 7}}
    assert flag(pod["containers"][0]["args"], "--drain-seconds") == 90
    assert pod["terminationGracePeriodSeconds"] > 7 + 90


def test_a_gateway_that_goes_finishes_the_longest_answer_that_there_may_be():
    pod = render().one("Deployment", "diffusion-operator-gateway")["spec"]["template"]["spec"]
    before = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = flag(pod["containers"][0]["args"], "--drain-seconds")
    assert drain >= Settings().request_timeout_seconds
    assert pod["terminationGracePeriodSeconds"] > before + drain


def test_the_gateway_reads_its_api_keys_from_the_mounted_secret():
    """As files: environment variables of a running container do not change with the Secret."""
    pod = render({"gateway.apiKeys.secretName": "team-keys"}).one("Deployment", f"{RELEASE}-gateway")["spec"][
        "template"
    ]
    (container,) = pod["spec"]["containers"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "api-keys"]
    assert f"--api-keys-dir={mount['mountPath']}" in container["args"]
    assert mount["readOnly"]
    # A file mounted by subPath would never change.
    assert "subPath" not in mount
    assert {"name": "api-keys", "secret": {"secretName": "team-keys"}} in pod["spec"]["volumes"]


def test_the_gateway_checks_servers_by_the_certificates_of_the_secret_that_is_named():
    (pod,) = (pod for name, pod in render({"gateway.caSecret.name": "servers-ca"}).pod_specs() if "gateway" in name)
    (container,) = pod["containers"]
    (file,) = (entry["value"] for entry in container["env"] if entry["name"] == "SSL_CERT_FILE")
    (mount,) = (mount for mount in container["volumeMounts"] if mount["mountPath"] == file.rpartition("/")[0])
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == mount["name"])
    assert file.endswith("/ca.crt")
    assert volume["secret"] == {"secretName": "servers-ca"}


@pytest.mark.parametrize(
    ("release", "values", "name"),
    [
        ("diffusion-operator", [], "diffusion-operator"),
        ("prod", [], "prod-diffusion-operator"),
        ("prod", ["--set=nameOverride=dm"], "prod-dm"),
        ("prod", ["--set=fullnameOverride=models"], "models"),
        ("r" * 53, [], "r" * 50),
    ],
)
def test_names_follow_the_release_and_fit_kubernetes(release: str, values: list[str], name: str):
    text = helm("template", release, str(CHART), f"--set=image.registry={REGISTRY}", *values)
    assert f"\n  name: {name}\n" in text
    assert f"\n  name: {name}-gateway\n" in text


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ({}, f"{REGISTRY}/diffusion-gateway:0.1.0"),
        ({"image.tag": "v1"}, f"{REGISTRY}/diffusion-gateway:v1"),
        ({"image.tag": "v1", "gateway.image.tag": "v2"}, f"{REGISTRY}/diffusion-gateway:v2"),
        ({"gateway.image.registry": "localhost:5000"}, "localhost:5000/diffusion-gateway:0.1.0"),
        (
            {"image.tag": "v1", "gateway.image.digest": f"sha256:{'a' * 64}"},
            f"{REGISTRY}/diffusion-gateway@sha256:{'a' * 64}",
        ),
    ],
)
def test_the_image_is_the_most_specific_one_named(values: dict[str, str], image: str):
    deployment = render(values).one("Deployment", "diffusion-operator-gateway")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == image


def allowed(rendered: Rendered, name: str) -> dict[str, list[Any] | None]:
    """Who may reach which port. None: everybody."""
    rules = rendered.one("NetworkPolicy", name)["spec"]["ingress"]
    return {rule["ports"][0]["port"]: rule.get("from") for rule in rules}


def component_of(peer: dict[str, Any]) -> str:
    return peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"]


def test_network_policies_tell_clients_from_those_who_read_metrics_and_routes():
    clients, prometheus = [{"ipBlock": {"cidr": "192.0.2.1/32"}}], [{"ipBlock": {"cidr": "192.0.2.2/32"}}]
    rendered = render(
        {"networkPolicy.enabled": True, "networkPolicy.clients": clients, "networkPolicy.prometheus": prometheus}
    )
    gateway = allowed(rendered, "diffusion-operator-gateway")
    assert gateway["http"] == clients
    assert gateway["admin"]
    operator, *scrapers = gateway["admin"]
    assert (component_of(operator), scrapers) == ("operator", prometheus)
    assert allowed(rendered, "diffusion-operator") == {"http": prometheus}


def test_behind_network_policies_that_name_no_prometheus_only_the_operator_reads_routes_and_nobody_metrics():
    rendered = render({"networkPolicy.enabled": True})
    gateway = allowed(rendered, "diffusion-operator-gateway")
    assert gateway["http"] is None
    assert gateway["admin"]
    assert [component_of(peer) for peer in gateway["admin"]] == ["operator"]
    assert allowed(rendered, "diffusion-operator") == {}


def test_whoever_installs_network_policies_that_name_no_prometheus_is_told_what_that_means():
    def notes(values: dict[str, Any]) -> str:
        return helm(
            "install", RELEASE, str(CHART), "--dry-run=client", *settings({"image.registry": REGISTRY, **values})
        )

    prometheus = [{"namespaceSelector": {}}]
    assert "let no Prometheus in" in notes({"networkPolicy.enabled": True})
    assert "let no Prometheus in" not in notes({"networkPolicy.enabled": True, "networkPolicy.prometheus": prometheus})
    assert "let no Prometheus in" not in notes({})


def test_prometheus_is_sent_to_the_gateways_admin_port():
    rendered = render({"metrics.podMonitor.enabled": True})
    deployment = rendered.one("Deployment", "diffusion-operator-gateway")
    monitor = rendered.one("PodMonitor", "diffusion-operator-gateway")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    annotated = deployment["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"]
    scraped = {int(annotated), ports[monitor["spec"]["podMetricsEndpoints"][0]["port"]]}
    assert scraped == {ports["admin"]}


def test_pod_monitors_look_for_workers_where_models_may_be():
    monitor = {"metrics.podMonitor.enabled": True}
    name = "diffusion-operator-worker"
    assert render(monitor).one("PodMonitor", name)["spec"]["namespaceSelector"] == {"any": True}
    scoped = render({**monitor, "watchNamespaces": ["stories"]}).one("PodMonitor", name)
    assert scoped["spec"]["namespaceSelector"] == {"matchNames": ["stories"]}


def test_the_operator_is_told_where_prometheus_is_and_gets_the_secrets_that_are_named():
    (container,) = (pod := dict(render(files=(EVERYTHING,)).pod_specs())["models"])["containers"]
    args, mounts = container["args"], {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert "--prometheus-url=https://prometheus.example.com/base" in args
    assert "--prometheus-namespace-url=poems=http://prometheus.poems:9090" in args
    assert f"--prometheus-bearer-token-file={mounts['prometheus-token']}/bearer" in args
    assert f"--prometheus-ca-file={mounts['prometheus-ca']}/bundle.pem" in args
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    assert secrets == {"prometheus-token": "prometheus-token", "prometheus-ca": "prometheus-ca"}


def test_without_values_for_prometheus_no_secret_is_mounted():
    for _, pod in render().pod_specs():
        assert not [volume for volume in pod["volumes"] if "secret" in volume]


def test_alerts_link_to_the_page_that_was_named():
    values = {"metrics.prometheusRule.enabled": True, "metrics.prometheusRule.runbookUrl": "https://wiki.example.com/x"}
    (rules,) = render(values).of("PrometheusRule")
    links = [rule["annotations"]["runbook_url"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    assert links
    assert all(link.startswith("https://wiki.example.com/x#diffusion") for link in links)
