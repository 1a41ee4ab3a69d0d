"""What every test shares: one hypothesis profile."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Derandomised: a run fails because the code changed, never because of the day's dice.
settings.register_profile(
    "kvplan", max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("kvplan")
