"""Nothing is removed through a mount."""

from pathlib import Path

import pytest

from cluster import mounts
from cluster.errors import ClusterError

FOLDER = Path("/home/me/my project/.cluster")
MOUNTS = r"""
/dev/vda / ext4 rw 0 0
tmpfs /home/me/my\040project/.cluster/var/lib/kubelet/pods/1/volumes tmpfs rw 0 0
/dev/vdb /home/me/my\040project/.cluster-of-another ext4 rw 0 0
/dev/vdc /home/me/back\134slash ext4 rw 0 0
""".lstrip()


def test_a_mount_below_a_folder_whose_name_has_a_blank_is_found() -> None:
    assert mounts.below(FOLDER, MOUNTS) == [FOLDER / "var/lib/kubelet/pods/1/volumes"]


def test_a_folder_that_is_a_mount_itself_is_found() -> None:
    assert mounts.below(Path("/home/me/back\\slash"), MOUNTS) == [Path("/home/me/back\\slash")]


def test_a_folder_without_mounts_is_free() -> None:
    mounts.require_none(mounts.below(FOLDER / "etc", MOUNTS))


def test_the_mount_that_stands_in_the_way_is_named_with_the_remedy() -> None:
    with pytest.raises(ClusterError, match=r"umount '/home/me/my project/\.cluster/var"):
        mounts.require_none(mounts.below(FOLDER, MOUNTS))
