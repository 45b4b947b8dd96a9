"""Random sequences against a model."""

import pytest


@pytest.fixture(autouse=True)
def _not_measured(unmeasured: None) -> None:
    """What is done a thousand times over is done elsewhere too, and measuring it takes longer."""
