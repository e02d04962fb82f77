"""Who may do what once the chart is installed, as the API server's own authorizer answers it."""

from typing import Any, NamedTuple

import pytest
from kubernetes import client

from tests.chart.chart import NAMESPACE, RELEASE, Rendered, render
from tests.chart.release import Release

OURS = "serving.diffusion-operator.dev"


class Access(NamedTuple):
    """One question to the authorizer."""

    component: str
    verb: str
    resource: str
    group: str = ""
    namespace: str = "stories"


NEEDED = [
    *(Access("operator", verb, "diffusionmodels", OURS) for verb in ("get", "list", "watch")),
    Access("operator", "update", "diffusionmodels/status", OURS),
    *(Access("operator", verb, "deployments", "apps") for verb in ("list", "watch", "create", "patch", "delete")),
    *(Access("operator", verb, kind) for kind in ("services", "configmaps") for verb in ("list", "watch", "patch")),
    *(Access("operator", verb, "jobs", "batch") for verb in ("list", "watch", "create", "patch", "delete")),
    *(Access("operator", verb, "pods") for verb in ("list", "watch")),
    Access("operator", "create", "events"),
    Access("operator", "list", "endpointslices", "discovery.k8s.io", NAMESPACE),
    *(Access("operator", verb, "leases", "coordination.k8s.io", NAMESPACE) for verb in ("get", "create", "patch")),
    *(Access("gateway", verb, "diffusionmodels", OURS) for verb in ("list", "watch")),
    *(Access("gateway", verb, "endpointslices", "discovery.k8s.io") for verb in ("list", "watch")),
]
# Nodes are of no namespace: where the chart has only Roles, people write resources.gpuMemory.
NODES = Access("operator", "list", "nodes")
FORBIDDEN = [
    *(Access(who, verb, "secrets") for who in ("operator", "gateway") for verb in ("get", "list", "watch", "create")),
    Access("operator", "patch", "diffusionmodels", OURS),
    Access("operator", "delete", "diffusionmodels", OURS),
    Access("operator", "create", "pods"),
    Access("operator", "create", "pods/exec"),
    Access("operator", "watch", "nodes"),
    Access("operator", "patch", "nodes"),
    Access("operator", "create", "roles", "rbac.authorization.k8s.io"),
    Access("operator", "create", "serviceaccounts/token"),
    Access("gateway", "update", "diffusionmodels/status", OURS),
    Access("gateway", "patch", "deployments", "apps"),
    Access("gateway", "list", "configmaps"),
    Access("gateway", "list", "pods"),
]


def may(release: Release, access: Access) -> bool:
    """The authorizer's answer for a component's ServiceAccount."""
    account = RELEASE if access.component == "operator" else f"{RELEASE}-{access.component}"
    resource, _, subresource = access.resource.partition("/")
    review = client.V1SubjectAccessReview(
        spec=client.V1SubjectAccessReviewSpec(
            user=f"system:serviceaccount:{NAMESPACE}:{account}",
            resource_attributes=client.V1ResourceAttributes(
                verb=access.verb,
                group=access.group,
                resource=resource,
                subresource=subresource,
                namespace=access.namespace,
            ),
        )
    )
    api = client.AuthorizationV1Api(release.plane.api_client())
    return bool(api.create_subject_access_review(review).status.allowed)


def answers(release: Release, accesses: list[Access]) -> dict[Access, bool]:
    """The authorizer's answers to all of them."""
    return {access: may(release, access) for access in accesses}


def test_cluster_wide_each_program_may_do_what_it_needs_and_nothing_else(release: Release):
    release.install({"crds.install": False})
    needed = [*NEEDED, NODES]
    assert answers(release, needed) == dict.fromkeys(needed, True)
    assert answers(release, FORBIDDEN) == dict.fromkeys(FORBIDDEN, False)


def test_with_watch_namespaces_nothing_is_allowed_elsewhere(release: Release):
    release.core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="stories")))
    release.install({"crds.install": False, "watchNamespaces": ["stories"]})

    assert answers(release, NEEDED) == dict.fromkeys(NEEDED, True)
    elsewhere = [access._replace(namespace="default") for access in NEEDED]
    assert answers(release, elsewhere) == dict.fromkeys(elsewhere, False)
    assert not may(release, NODES)


def test_with_watch_namespaces_no_cluster_role_is_needed():
    """Somebody who administers only namespaces can install the chart, given the CRD."""
    values = {"watchNamespaces": ["stories"], "crds.install": False, "rbac.aggregateUserRoles": False}
    rendered = render(values)
    cluster_wide = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}
    assert not cluster_wide & {item["kind"] for item in rendered.objects}


@pytest.mark.parametrize(
    "values", [{}, {"watchNamespaces": ["stories", "poems"]}], ids=["cluster-wide", "in two namespaces"]
)
def test_no_role_uses_a_wildcard_or_reaches_secrets(values: dict[str, Any]):
    rules = [
        rule for item in render(values).objects if item["kind"] in {"Role", "ClusterRole"} for rule in item["rules"]
    ]
    assert rules
    for rule in rules:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not {"secrets", "pods/exec", "serviceaccounts/token"} & {*rule["resources"]}
        assert not {"escalate", "bind", "impersonate"} & {*rule["verbs"]}


@pytest.mark.parametrize("namespaces", [[], ["stories", "poems"]], ids=["cluster-wide", "in two namespaces"])
def test_only_where_it_is_asked_for_the_gateway_gets_secrets_and_nobody_lists_them(namespaces: list[str]):
    rendered = render({"gateway.readSecrets": True, "watchNamespaces": namespaces})
    roles = [item for item in rendered.objects if item["kind"] in {"Role", "ClusterRole"}]
    found = [
        (item["metadata"].get("namespace"), rule["verbs"], "gateway" in item["metadata"]["name"])
        for item in roles
        for rule in item["rules"]
        if "secrets" in rule["resources"]
    ]
    assert found == [(namespace, ["get"], True) for namespace in namespaces or [None]]


def rules_of(rendered: Rendered, role: str) -> dict[str, list[str]]:
    """Verbs by resource of an aggregated user role."""
    item = rendered.one("ClusterRole", f"{NAMESPACE}:{RELEASE}-{role}")
    return {resource: rule["verbs"] for rule in item["rules"] for resource in rule["resources"]}


def test_people_who_may_view_see_models_and_people_who_may_edit_change_them():
    rendered = render()
    labels = rendered.one("ClusterRole", f"{NAMESPACE}:{RELEASE}-edit")["metadata"]["labels"]
    assert labels["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"
    assert labels["rbac.authorization.k8s.io/aggregate-to-admin"] == "true"
    assert rules_of(rendered, "view")["diffusionmodels"] == ["get", "list", "watch"]
    assert {"create", "update", "patch", "delete"} <= set(rules_of(rendered, "edit")["diffusionmodels"])
    # The status is the operator's to write.
    assert [rules_of(rendered, role)["diffusionmodels/status"] for role in ("view", "edit")] == [["get"], ["get"]]


def test_every_binding_binds_the_role_beside_it_to_an_account_that_exists():
    rendered = render({"watchNamespaces": ["stories"]})
    accounts = {item["metadata"]["name"] for item in rendered.of("ServiceAccount")}
    roles = {(item["metadata"].get("namespace"), item["metadata"]["name"]) for item in rendered.of("Role")}
    for binding in rendered.of("RoleBinding"):
        assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) in roles
        (subject,) = binding["subjects"]
        assert (subject["name"] in accounts, subject["namespace"]) == (True, NAMESPACE)
