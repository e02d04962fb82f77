"""What the gateway measures, with the same meaning on every arm.

Labels are bounded: models, roles, revisions, ranges of lengths and our own reasons. What is no longer in the table is forgotten in
the end, or a gateway that sees revisions come and go for months would never stop growing.
"""

from .all import Metrics
from .labels import arm_labels

__all__ = ["Metrics", "arm_labels"]
