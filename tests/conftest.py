"""What all tests share: the same examples everywhere, and as much time as they need."""

from hypothesis import HealthCheck, settings

# No database: a clone that root has tested must not bind an ordinary user. No deadline: a test
# that asserts on time fails on a busy machine.
settings.register_profile(
    "xce",
    database=None,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("xce")
