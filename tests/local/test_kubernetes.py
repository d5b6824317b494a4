"""What a local Kubernetes is made of and started with; tests/live/test_kubernetes.py proves that jobs run there."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from headgate.core.errors import FetchError, HeadgateError, InputError
from headgate.local.spark.kubernetes import cluster, images, node, tools
from headgate.local.spark.kubernetes.cluster import KubernetesPlan, LocalKubernetes
from headgate.local.spark.kubernetes.container import command
from headgate.local.spark.kubernetes.images import SPARK, File, mounted, write_image, write_spark
from headgate.local.spark.kubernetes.node import PID_FILE, NodeNetwork, free_network
from headgate.local.spark.kubernetes.tools import PROGRAMS, SOURCES, KubernetesTools, kubernetes_tools


@pytest.fixture
def plan(tmp_path: Path) -> KubernetesPlan:
    kube = tmp_path / "kube"
    kube.write_text("#!/bin/sh\necho a key\n")
    kube.chmod(0o755)
    (tmp_path / PID_FILE).write_text("4711")
    return KubernetesPlan(str(tmp_path), 7, str(kube), "/usr/bin", "/plugins", "s3cret")


def test_all_but_the_holder_of_the_namespaces_run_inside_of_them(plan: KubernetesPlan) -> None:
    holder, *inside = plan.servers()
    assert holder.command[1:] == ["-m", "headgate.local.spark.kubernetes.node", plan.directory, "7"]
    names = ["containerd", "image-pause", "image-spark", "etcd", "apiserver", "controller-manager", "scheduler"]
    assert [server.name for server in inside] == [*names, "kubelet"]
    entered = ["nsenter", "--target=4711", "--mount", "--net", "--pid", f"--wd={plan.directory}", "--"]
    assert all(list(server.command[: len(entered)]) == entered for server in inside)
    images_imported = [server for server in inside if server.name.startswith("image-")]
    assert all(server.is_up is None for server in images_imported)


def test_tokens_and_keys_are_in_a_folder_of_the_owner_alone(plan: KubernetesPlan) -> None:
    list(plan.servers())
    keys = Path(plan.directory, "keys")
    assert keys.stat().st_mode & 0o777 == 0o700
    admin, kubelet = (keys / "tokens.csv").read_text().splitlines()
    assert admin == "s3cret,admin,admin,system:masters"
    assert kubelet.split(",")[1:] == ["system:node:headgate", "headgate", "system:nodes"]
    assert (keys / "accounts.pem").read_text() == "a key\n"
    assert json.loads(plan.kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == "https://10.201.7.2:6443"


def test_pods_have_a_control_group_and_addresses_of_this_node_alone(plan: KubernetesPlan) -> None:
    list(plan.servers())
    kubelet = json.loads(Path(plan.directory, "kubelet.json").read_text())
    assert kubelet["cgroupRoot"] == f"/{Path(plan.directory).name}"
    network = json.loads(Path(plan.directory, "network", "10-bridge.conflist").read_text())
    addresses = network["plugins"][0]["ipam"]
    assert addresses["ranges"] == [[{"subnet": "10.202.7.0/24"}]]
    assert addresses["dataDir"].startswith(plan.directory)


def test_drivers_here_and_in_pods_differ_in_where_they_are_reached(
    plan: KubernetesPlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(LocalKubernetes, "_running", lambda self: plan)
    kubernetes = LocalKubernetes(folders=[tmp_path / "shared"])
    here = kubernetes.settings(executors=2)
    assert here["spark.driver.host"] == here["spark.driver.bindAddress"] == "10.201.7.1"
    assert here["spark.executor.instances"] == "2"
    assert here["spark.dynamicAllocation.enabled"] == "false"
    assert not [name for name in here if ".dynamicAllocation." in name and not name.endswith(".enabled")]
    volumes = {here[name]: here[name.replace("mount.path", "mount.readOnly")] for name in here if ".mount.path" in name}
    assert volumes[str(tmp_path / "shared")] == "false"
    assert volumes["/usr"] == "true"


def test_networks_that_this_machine_uses_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    route = "eth0 {destination} 00000000 0001 0 0 0 {mask} 0 0 0\n"
    text = "head\n" + route.format(destination="00000000", mask="00000000")
    text += route.format(destination="0000C90A", mask="00FFFFFF") + route.format(
        destination="0001CA0A", mask="00FFFFFF"
    )
    monkeypatch.setattr(Path, "read_text", lambda self: text)
    assert free_network() == NodeNetwork(2)
    text += route.format(destination="0000000A", mask="000000FF")
    with pytest.raises(HeadgateError, match="there is no free network for a local Kubernetes among 200"):
        free_network()


def test_a_command_in_the_namespaces_that_fails_is_reported_with_its_reason() -> None:
    with pytest.raises(HeadgateError, match=r"ip link show no-such-cable: .*no-such-cable"):
        node._ip("link", "show", "no-such-cable")


# -------------------------------------------------------------------------------------------------- images, containers


def test_an_image_has_its_files_links_and_folders(tmp_path: Path) -> None:
    content = {"tmp": None, "bin": "usr/bin", "opt/run.sh": File(b"#!/bin/sh\n", is_program=True)}
    write_image(tmp_path / "image.tar", "local/x:1", ["/opt/run.sh"], content)
    with tarfile.open(tmp_path / "image.tar") as archive:
        parts = {name: extracted(archive, name) for name in archive.getnames()}
    (manifest,) = json.loads(parts["manifest.json"])
    assert manifest["RepoTags"] == ["local/x:1"]
    config = json.loads(parts["config.json"])
    assert config["config"]["Entrypoint"] == ["/opt/run.sh"]
    (layer,) = manifest["Layers"]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{layer.removesuffix('.tar')}"]
    with tarfile.open(fileobj=io.BytesIO(parts[layer])) as files:
        assert files.getmember("tmp").isdir()
        assert files.getmember("bin").linkname == "usr/bin"
        assert files.getmember("opt/run.sh").mode == 0o755


def extracted(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def test_the_image_of_spark_has_the_script_by_which_pods_drain(tmp_path: Path) -> None:
    write_spark(tmp_path / "spark.tar")
    with tarfile.open(tmp_path / "spark.tar") as archive:
        (manifest,) = json.loads(extracted(archive, "manifest.json"))
        layer = extracted(archive, manifest["Layers"][0])
    assert manifest["RepoTags"] == [SPARK]
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        assert (
            extracted(files, "opt/decom.sh")
            .decode()
            .endswith("-m headgate.local.spark.kubernetes.container decommission\n")
        )
        assert files.getmember("opt/decom.sh").mode == 0o755


def test_containers_see_the_programs_of_this_machine_once_each() -> None:
    folders = mounted()
    assert Path("/usr") in folders
    for path in (sys.prefix, sys.base_prefix, images.__file__):
        assert any(Path(path).is_relative_to(folder) for folder in folders)
    assert not any(a.is_relative_to(b) for a in folders for b in folders if a != b)


def test_an_executor_gets_its_options_in_their_order() -> None:
    environment = {
        "JAVA_HOME": "/java",
        "SPARK_HOME": "/spark",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_DRIVER_URL": "spark://driver",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.202.0.5",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "pod",
        **{f"SPARK_JAVA_OPT_{number}": f"-Dx={number}" for number in (10, 9, 0)},
    }
    found = command(["executor"], environment)
    assert found[:6] == ["/java/bin/java", "-Dx=0", "-Dx=9", "-Dx=10", "-Xms512m", "-Xmx512m"]
    assert found[found.index("--executor-id") + 1] == "3"
    assert found[found.index("--podName") + 1] == "pod"


def test_the_rights_of_drivers_are_those_that_the_guide_gives() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "clusters.md").read_text()
    (rule,) = cluster.RULES
    assert f"resources: [{', '.join(rule['resources'])}]" in guide
    assert f"verbs: [{', '.join(rule['verbs'])}]" in guide


# ------------------------------------------------------------------------------------------------- what is made of what


def found_programs(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: f"/bin/{name}" if name in names else None)


@pytest.mark.parametrize(
    ("user", "programs", "message"),
    [
        (1000, tools.ON_THE_MACHINE, "needs root, for namespaces and control groups; this is user 1000"),
        (0, ("ip", "mount"), "needs nsenter for its namespaces; not found on the PATH"),
        (0, (*tools.ON_THE_MACHINE, "dpkg-deb"), "needs apt-get to unpack containerd, .*; not found on the PATH"),
        (0, (*tools.ON_THE_MACHINE, *PROGRAMS), r"needs go to build Kubernetes 1\..*; not found on the PATH"),
    ],
)
def test_what_a_machine_lacks_is_said_in_one_sentence(
    user: int, programs: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEADGATE_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    found_programs(monkeypatch, *programs)
    with pytest.raises(InputError, match=message):
        kubernetes_tools()


def test_what_was_made_is_used_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADGATE_CACHE", str(tmp_path))
    monkeypatch.setattr(tools, "_check_machine", lambda: None)
    found_programs(monkeypatch, *PROGRAMS, "go")
    monkeypatch.setattr(tools, "_plugin_folders", lambda debian: [tmp_path])
    (tmp_path / "bridge").touch()
    steps: list[tuple[str, ...]] = []

    def run(step: tuple[str, ...], folder: Path, what: str, environment: object = None) -> None:
        steps.append(tuple(step))
        assert all((folder / name).exists() for name in SOURCES)
        (folder / step[-2]).touch()

    monkeypatch.setattr(tools, "_run", run)
    first = kubernetes_tools()
    assert isinstance(first, KubernetesTools)
    assert Path(first.kube).exists()
    assert len(steps) == 2
    assert kubernetes_tools() == first
    assert len(steps) == 2


def test_a_step_that_fails_is_reported_with_its_last_line(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="Kubernetes cannot be had: sh ended with exit code 3: no network"):
        tools._run(["sh", "-c", "echo begun; echo no network; exit 3"], tmp_path, "Kubernetes")


def test_the_modules_of_kubernetes_have_their_sums() -> None:
    assert f"k8s.io/kubernetes v{tools.version()} h1:" in tools._source("go.sum")
