"""Manifests and chart: valid by Kubernetes' own schemas, the same by either way, and with a file the service takes."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from jsonschema import Draft7Validator
from ruamel.yaml import YAML

from headgate._version import __version__
from headgate.service.config import read_config
from tests.deploy.go_template import render

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "helm" / "headgate"
KUBERNETES = ("1.25", "1.34")


def parsed(text: str) -> Any:
    return YAML(typ="safe").load(text)


def documents(text: str) -> list[dict[str, Any]]:
    return [entry for entry in YAML(typ="safe").load_all(text) if entry]


def values(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = parsed((CHART / "values.yaml").read_text(encoding="utf-8"))
    merged = copy.deepcopy(found)
    for path, value in changes.items():
        *folders, name = path.split("__")
        inner = merged
        for folder in folders:
            inner = inner[folder]
        inner[name] = value
    return merged


def rendered(chosen: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What the chart makes, by kind."""
    chart = parsed((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    context = {"Values": chosen, "Release": {"Name": "headgate"}, "Chart": {"AppVersion": chart["appVersion"]}}
    found = {}
    for template in sorted((CHART / "templates").glob("*.yaml")):
        for document in documents(render(template.read_text(encoding="utf-8"), context)):
            found[document["kind"]] = document
    return found


def manifests() -> dict[str, dict[str, Any]]:
    text = (DEPLOY / "kubernetes" / "headgate.yaml").read_text(encoding="utf-8")
    return {entry["kind"]: entry for entry in documents(text)}


CHOICES = {
    "defaults": values(),
    "elsewhere": values(
        replicas=3,
        config__store="postgresql://headgate@db/headgate",
        persistence__enabled=False,
        envFromSecret="store",
        networkPolicy__enabled=False,
    ),
    "tls": values(tls__secretName="cert", image__tag="1.2.3", persistence__storageClass="fast"),
}


def all_documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for kind, document in manifests().items():
        yield f"manifest-{kind}", document
    for name, chosen in CHOICES.items():
        for kind, document in rendered(chosen).items():
            yield f"{name}-{kind}", document


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("document", [pytest.param(entry, id=name) for name, entry in all_documents()])
def test_documents_are_valid_by_the_schemas_of_kubernetes(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def test_the_schema_would_find_a_mistake() -> None:
    wrong = copy.deepcopy(manifests()["Deployment"])
    wrong["spec"]["template"]["spec"]["containers"][0]["port"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES[0], strict=True)


def without_labels(document: Any) -> Any:
    """A document without what says which release it belongs to, and with what goes without saying left out."""
    if isinstance(document, dict):
        ours = ("app.kubernetes.io/instance", "app.kubernetes.io/version", "annotations")
        return {
            key: without_labels(value)
            for key, value in document.items()
            if key not in ours and (key, value) != ("scheme", "HTTP")
        }
    return [without_labels(entry) for entry in document] if isinstance(document, list) else document


def test_the_manifests_are_what_the_chart_makes_of_its_defaults() -> None:
    made, plain = rendered(CHOICES["defaults"]), manifests()
    assert made.keys() == plain.keys()
    config = [parsed(entry["Secret"]["stringData"].pop("headgate.yaml")) for entry in (made, plain)]
    assert config[0] == config[1]
    assert without_labels(made) == without_labels(plain)


def test_choices_are_carried_out() -> None:
    elsewhere, tls = rendered(CHOICES["elsewhere"]), rendered(CHOICES["tls"])
    assert "PersistentVolumeClaim" not in elsewhere
    assert "NetworkPolicy" not in elsewhere
    spec = elsewhere["Deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (3, "RollingUpdate")
    assert spec["template"]["spec"]["containers"][0]["envFrom"] == [{"secretRef": {"name": "store"}}]
    pod = tls["Deployment"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "headgate:1.2.3"
    assert pod["containers"][0]["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert [entry["name"] for entry in pod["volumes"]] == ["config", "state", "tmp", "tls"]
    assert tls["PersistentVolumeClaim"]["spec"]["storageClassName"] == "fast"


@pytest.mark.parametrize(
    "document", [pytest.param(entry, id=name) for name, entry in all_documents() if "Deployment" in name]
)
def test_pods_have_no_rights_that_they_do_not_need(document: dict[str, Any]) -> None:
    pod = document["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "memory" in container["resources"]["limits"]


def test_the_values_fit_their_schema_and_mistakes_do_not() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    Draft7Validator.check_schema(schema)
    validator = Draft7Validator(schema)
    for chosen in CHOICES.values():
        assert list(validator.iter_errors(chosen)) == []
    for wrong in ({"replicas": 0}, {"replica": 2}, {"persistence": {"size": "much"}}):
        assert list(validator.iter_errors({**values(), **wrong}))


@pytest.mark.parametrize(
    "wrong",
    [{}, {"persistence__enabled": False}, {"config__store": "postgresql://db/headgate"}],
    ids=["as it is", "a store of each", "a volume that only one can have"],
)
def test_several_replicas_need_a_store_that_they_share(wrong: dict[str, Any]) -> None:
    validator = Draft7Validator(json.loads((CHART / "values.schema.json").read_text(encoding="utf-8")))
    assert list(validator.iter_errors(values(replicas=2, **wrong)))
    assert not list(validator.iter_errors(values(replicas=1, **wrong)))


def test_the_volume_with_the_tokens_outlives_the_release() -> None:
    annotations = rendered(values())["PersistentVolumeClaim"]["metadata"]["annotations"]
    assert annotations == {"helm.sh/resource-policy": "keep"}


def test_a_service_that_stands_by_is_taken_for_started() -> None:
    container = rendered(CHOICES["elsewhere"])["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    assert container["startupProbe"]["httpGet"]["path"] == "/healthz"


def test_the_service_takes_the_files_that_are_shipped(tmp_path: Path) -> None:
    texts = [
        (DEPLOY / "headgate.yaml").read_text(encoding="utf-8"),
        manifests()["Secret"]["stringData"]["headgate.yaml"],
        rendered(values())["Secret"]["stringData"]["headgate.yaml"],
    ]
    for number, text in enumerate(texts):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text, encoding="utf-8")
        config = read_config(file)
        assert (config.host, config.port) == ("0.0.0.0", 8420)
        assert config.store == "sqlite:////var/lib/headgate/headgate.db"


def test_the_versions_are_those_of_the_package() -> None:
    chart = parsed((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == __version__
    image = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == f"headgate:{__version__}"


def test_the_notes_are_rendered(tmp_path: Path) -> None:
    context = {"Values": values(), "Release": {"Name": "headgate", "Namespace": "streams"}}
    notes = render((CHART / "templates" / "NOTES.txt").read_text(encoding="utf-8"), context)
    assert "http://headgate:8420" in notes
    assert "kubectl exec -n streams deploy/headgate" in notes
    assert "{{" not in notes
