"""How the properties are tried."""

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True)  # no test's outcome depends on time or chance
settings.load_profile("steady")
