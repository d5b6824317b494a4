"""The names that plug-in authors import: what a package exports changes only together with this list."""

from importlib import import_module

import pytest

PUBLIC = {
    "headgate.testing": [
        "ADAPTOR_CHECKS",
        "ENGINE_CHECKS",
        "FORECASTER_CHECKS",
        "JOURNAL_CHECKS",
        "POLICY_CHECKS",
        "RETENTION_CHECKS",
        "WRITER_CHECKS",
        "ContractViolation",
        "FakeClock",
        "check_adaptor",
        "check_engine",
        "check_forecaster",
        "check_journal",
        "check_policy",
        "named_forecaster",
        "named_policy",
    ],
}


@pytest.mark.parametrize("package", PUBLIC)
def test_a_package_exports_its_public_names(package: str) -> None:
    module = import_module(package)
    assert sorted(module.__all__) == sorted(PUBLIC[package])
    assert all(hasattr(module, name) for name in PUBLIC[package])
