"""What earlier runs have measured of the maximum sustainable throughput (MST), so that a stopped one can go on."""

from __future__ import annotations

import json
from pathlib import Path

from headgate.core.errors import InputError
from headgate.lab.mst import Measurement, MstPlan, MstResult, fitted
from headgate.policies.capacity.model_file import measurements_in
from headgate.runtime.model_file import read_model_file


def kept_result(plan: MstPlan, file: Path) -> MstResult | None:
    """What a model file has measured by this very plan; ``None`` if there is no file, or it was another plan.

    A file that cannot be understood is refused and not replaced: it may be something else.
    """
    if not file.exists():
        return None
    found = read_model_file(file)
    measurements_in(found, str(file))
    try:
        if found["app"] != json.loads(json.dumps(plan.to_json())):
            return None
        measurements = [
            Measurement(
                int(one["executors"]),
                _numbers(one["readings_per_s"]),
                _numbers(one["agreeing_per_s"]),
                settled=bool(one["settled"]),
            )
            for one in found["measurements"]
        ]
        return fitted(plan, measurements, str(found["spark"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"model file {str(file)!r} is damaged: {error!r}; delete it to measure anew.") from error


def _numbers(values: list[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
