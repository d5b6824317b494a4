"""What a local YARN is started with; that a job runs on it is proved by tests/live/test_yarn.py."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from headgate.core.errors import InputError
from headgate.local.jars import pinned
from headgate.local.spark import yarn
from headgate.local.spark.yarn import PORTS, LocalYarn, YarnPlan


def plan_in(folder: Path, **settings: str) -> YarnPlan:
    return YarnPlan("java", ["yarn.jar"], str(folder), [*range(20000, 20000 + len(PORTS))], 4096, settings)


def values_in(file: Path) -> dict[str, str]:
    """Return the settings in a file of Hadoop's."""
    found = {}
    for entry in ET.parse(file).getroot():
        found[str(entry.findtext("name"))] = str(entry.findtext("value"))
    return found


def test_daemons_listen_on_loopback_and_leave_all_in_their_folder(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    manager, node = plan.servers()
    assert (manager.name, node.name) == ("resourcemanager", "nodemanager")
    assert manager.environment["HADOOP_CONF_DIR"] == str(tmp_path / "conf")
    values = values_in(plan.configuration / "yarn-site.xml")
    assert {value for name, value in values.items() if name in PORTS} == {f"127.0.0.1:{port}" for port in plan.ports}
    assert values["yarn.nodemanager.resource.memory-mb"] == "4096"
    assert values["yarn.nodemanager.local-dirs"].startswith(str(tmp_path))
    assert values["yarn.nodemanager.log-dirs"].startswith(str(tmp_path))


def test_settings_of_yarn_and_of_its_queues_go_into_their_files(tmp_path: Path) -> None:
    limit = "yarn.scheduler.capacity.root.default.maximum-capacity"
    plan = plan_in(tmp_path, **{limit: "50", "yarn.resourcemanager.am.max-attempts": "1 < 2"})
    list(plan.servers())
    assert values_in(plan.configuration / "capacity-scheduler.xml")[limit] == "50"
    assert values_in(plan.configuration / "yarn-site.xml")["yarn.resourcemanager.am.max-attempts"] == "1 < 2"


def test_a_job_of_as_many_executors_as_there_are_slots_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[YarnPlan] = []
    monkeypatch.setattr(yarn, "yarn_jars", list)
    monkeypatch.setattr(LocalYarn, "_run", lambda self, plan: plans.append(plan))
    LocalYarn(slots=3).start()
    assert plans[0].memory_mb == 3 * 1024 + 1024
    Path(plans[0].directory).rmdir()


def test_a_spark_with_another_hadoop_is_refused_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "hadoop-client-api-3.4.1.jar").touch()
    monkeypatch.setattr(yarn, "spark_home", lambda: str(tmp_path))
    with pytest.raises(InputError, match=rf"needs a pyspark with Hadoop {pinned('yarn').version}.* has 3\.4\.1\."):
        yarn.yarn_jars()


@pytest.mark.parametrize("slots", [0, 1001])
def test_an_impossible_number_of_slots_is_refused(slots: int) -> None:
    with pytest.raises(InputError, match=f"a YARN with {slots} slots is not possible; 1 to 1000 are"):
        LocalYarn(slots)
