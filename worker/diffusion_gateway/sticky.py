"""Where a user stands between 0 and 1, so that each keeps to one arm while weights climb."""

import hashlib


def place(model_key: str, user: str) -> float:
    """A number in [0, 1) that depends on the model and the user alone: the same in all gateways, and after restarts.

    Another model has its own order, so that it is not the same people who try everything new.
    """
    key = hashlib.blake2b(model_key.encode(), digest_size=32).digest()
    # JSON may spell halves of surrogate pairs.
    digest = hashlib.blake2b(user.encode("utf-8", "surrogatepass"), key=key, digest_size=8).digest()
    # 53 bits: as many as a float holds, so that it never rounds up to 1.
    return (int.from_bytes(digest) >> 11) / 2.0**53
