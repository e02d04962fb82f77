"""Two clones on one machine must not collide, and a clone keeps its addresses."""

import ipaddress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.addresses import Addresses, Identity, choose
from cluster.errors import ClusterError

# A busy machine is slow, which is no fault of ours.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def networks(addresses: Addresses) -> list[ipaddress.IPv4Network]:
    link = ipaddress.IPv4Network(f"{addresses.host}/{addresses.link_prefix}", strict=False)
    return [link, ipaddress.IPv4Network(addresses.pods), ipaddress.IPv4Network(addresses.services)]


@unhurried
@given(st.text(min_size=1))
def test_names_fit_into_what_linux_allows(folder: str) -> None:
    identity = Identity.of(Path(folder))

    assert len(identity.interface) <= 15
    assert identity == Identity.of(Path(folder))


def test_two_checkouts_have_different_names() -> None:
    one, other = Identity.of(Path("/home/a/project")), Identity.of(Path("/home/b/project"))

    assert one.name != other.name
    assert one.interface != other.interface


@unhurried
@given(st.integers(64, 191))
def test_link_pods_and_services_do_not_overlap_and_stay_in_the_block(block: int) -> None:
    addresses = Addresses(block)
    link, pods, services = networks(addresses)

    assert not link.overlaps(pods)
    assert not pods.overlaps(services)
    assert not services.overlaps(link)
    assert all(network.subnet_of(addresses.whole) for network in (link, pods, services))
    assert ipaddress.ip_address(addresses.dns) in services
    assert ipaddress.ip_address(addresses.kubernetes_service) == services[1]
    assert ipaddress.ip_address(addresses.node) in link


@unhurried
@given(st.text(min_size=1), st.sets(st.integers(64, 191), max_size=127))
def test_a_block_that_is_in_use_is_never_chosen(folder: str, used: set[int]) -> None:
    taken = [Addresses(block).whole for block in used]

    chosen = choose(Identity.of(Path(folder)), taken)

    assert chosen.block not in used


def test_the_same_checkout_gets_the_same_block_again() -> None:
    identity = Identity.of(Path("/srv/checkout"))

    assert choose(identity, []) == choose(identity, [ipaddress.IPv4Network("192.0.2.0/24")])


def test_a_narrow_route_inside_the_block_counts_as_in_use() -> None:
    identity = Identity.of(Path("/srv/checkout"))
    preferred = choose(identity, [])

    assert choose(identity, [ipaddress.IPv4Network(f"{preferred.node}/32")]) != preferred


def test_a_machine_without_a_free_block_is_told_so() -> None:
    with pytest.raises(ClusterError, match=r"no free network .* end a cluster or a VPN"):
        choose(Identity.of(Path("/srv/checkout")), [ipaddress.IPv4Network("10.0.0.0/8")])
