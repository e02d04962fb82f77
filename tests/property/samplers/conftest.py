"""How the samplers' properties are tried."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("steady", deadline=None, derandomize=True)  # no test's outcome depends on time or chance
settings.load_profile("steady")
