"""The file of a service: what it says, and what is wrong with it, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from headgate.core.errors import InputError
from headgate.core.quota_ledger import Quota
from headgate.core.quotas import QuotaGroup
from headgate.service.config import ServiceConfig, read_config
from headgate.service.config.document import json_schema

GOOD = """\
version: 1
store: sqlite:///data/headgate.db
listen: 127.0.0.1:9000
retention: {full_detail_s: 12h}
access: {requests_per_s: 20, open_reading: false, hosts: [headgate.example.org]}
groups:
  batch: {instances: 40, cores: 80, money_per_hour: 12.5, priority: 1}
jobs:
  clicks:
    objective: latency p95 < 10s
    policy: reactive
    interval: 5s
    group: batch
    mode: recommend
    shadows: [static]
    guards: {max_out: 2}
    operators:
      parse: {instances: [1, 8], price: 0.25, cores: 2}
      count:
    streams: [parse -> count]
  words:
    objective: slow records < 5%
    rules: rules.yaml
    operators: {words: {instances: [2, 4]}}
"""
RULES = """\
version: 1
rules:
  - {name: full, scale_out: words, by: 1, never_above: 4, when: {metric: backlog, above: 100, for_at_least: 10s}}
"""


def read(folder: Path, text: str) -> ServiceConfig:
    (folder / "rules.yaml").write_text(RULES)
    path = folder / "headgate.yaml"
    path.write_text(text)
    return read_config(path)


def test_a_file_says_everything_about_a_service(tmp_path: Path) -> None:
    config = read(tmp_path, GOOD)
    clicks, words = config.jobs
    assert config.store == f"sqlite:///{tmp_path / 'data/headgate.db'}"
    assert (config.host, config.port, config.is_loopback) == ("127.0.0.1", 9000, True)
    assert config.access.hosts == ("headgate.example.org",)
    assert not config.access.open_reading
    assert config.groups == (QuotaGroup("batch", Quota(40, 80.0, None, 12.5), 1),)
    assert clicks.topology.streams == (("parse", "count"),)
    assert clicks.objective.bounds_of("parse", clicks.topology) == (1, 8)
    assert str(clicks.objective.slo_of("count")) == "latency p95 < 5s"
    assert (clicks.interval_s, clicks.reported_every_s, str(clicks.mode)) == (5.0, 2.5, "recommend")
    assert (words.policy, words.settings["rules"]) == ("rules", RULES)


def test_the_schema_says_the_same(tmp_path: Path) -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    data: dict[str, Any] = YAML(typ="safe", pure=True).load(GOOD)
    jsonschema.validate(data, schema)
    data["jobs"]["clicks"]["objektive"] = "x"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version: 1\nstore", "version: 2\nstore", "1:10: version: found '2', expected 1"),
        ("objective: latency p95 < 10s", "objektive: fast", "10:5: unknown key 'objektive' in job clicks"),
        ("objective: latency p95 < 10s", "objective: fast", "10:16: objective 'fast' is not understood"),
        ("policy: reactive", "policy: reactiv", "11:13: policy: unknown policy 'reactiv', did you mean 'reactive'?"),
        ("group: batch", "group: bach", "13:12: group: unknown group 'bach', did you mean 'batch'?"),
        ("interval: 5s", "interval: 0s", "12:15: interval: found 0 s, expected a time above 0."),
        ("mode: recommend", "mode: rest", "14:11: mode: unknown mode 'rest'"),
        ("[1, 8]", "[8, 1]", "18:14: max_instances 1 is not allowed"),
        ("[1, 8]", "8", "18:26: instances: found '8', expected the fewest and the most, as [1, 8]."),
        ("parse -> count", "parse -> cuont", "20:14: streams: stream parse -> cuont names 'cuont'"),
        ("parse -> count", "parse, count", "20:15: streams: found 'parse', expected two operators"),
        ("shadows: [static]", "shadows: [reactive]", "15:14: shadow 'reactive' is the acting policy"),
        ("max_out: 2", "max_uot: 2", "16:13: unknown setting of guards 'max_uot', did you mean 'max_out'?"),
        ("rules: rules.yaml", "rules: none.yaml", "23:12: rules: found 'none.yaml', expected a file"),
        ("full_detail_s: 12h", "full_detail: 12h", "4:12: unknown setting of retention 'full_detail'"),
        ("127.0.0.1:9000", "9000", "3:9: listen: found '9000', expected an address and a port"),
        ("sqlite:///data/headgate.db", "mysql://x:secret@y", "2:8: store: expected sqlite:///FILE or postgresql://"),
        ("open_reading: false", "open_reading: 3", "open_reading: found '3', expected true or false."),
        ("  clicks:", "  cl icks:", "9:3: jobs: 'cl icks' is not usable as a name; letters"),
    ],
)
def test_a_mistake_is_reported_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(InputError) as error:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert f"headgate.yaml:{message}" in str(error.value) or message in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jobs: {}", "2:7: jobs: found nothing, expected at least one job, its name as the key."),
        ("jobs:", "2:5: jobs: found nothing, expected at least one job, its name as the key."),
        ("jobs: []", "2:7: jobs: found an empty list, expected at least one job, its name as the key."),
        (
            "jobs: {a: {objective: latency p95 < 10s, operators: {}}}",
            "operators: found nothing, expected at least ",
        ),
        ("groups: {}\njobs: {a: {}}", "2:9: groups: found nothing, expected at least one group, its name as the key."),
    ],
)
def test_an_empty_section_is_reported(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, f"version: 1\n{text}\n")
    assert message in str(error.value)


def test_an_empty_file_and_a_missing_file_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the file is empty; expected version and jobs"):
        read(tmp_path, "")
    with pytest.raises(InputError, match="cannot be read: no such file"):
        read_config(tmp_path / "none.yaml")
