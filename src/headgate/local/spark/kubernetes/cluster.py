"""A real Kubernetes of one node on this machine, for tests and for trying settings; it needs root.

As a context manager it lives as long as the block, and not longer than the process, however that ends::

    with LocalKubernetes() as kubernetes:
        spark = kubernetes.session("my job")

API server, controllers, scheduler and kubelet are one program, built from source when first needed; containers run by
Debian's containerd. All of them, and the pods, live in namespaces of their own, which one cable connects with this
machine; nothing is installed, and nothing is left when they end.
"""

from __future__ import annotations

import csv
import json
import os
import secrets
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.core.errors import EngineError
from headgate.local.machine import java, spark_home
from headgate.local.server_plan import POLL_S, ServerProcess
from headgate.local.servers import LocalServers
from headgate.local.spark.cluster import EXECUTOR_MEMORY_MB, local_settings, plain_session, submit
from headgate.local.spark.kubernetes.images import SPARK, mounted, write_pause, write_spark
from headgate.local.spark.kubernetes.node import PID_FILE, NodeNetwork, control_group, free_network
from headgate.local.spark.kubernetes.tools import kubernetes_tools

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NODE = "headgate"
NAMESPACE, ACCOUNT = "streaming", "spark"
API_PORT = 6443
STORE = "http://127.0.0.1:2379"
SERVICES = "10.203.0.0/16"
IMAGES = ("pause", "spark")
READY_WITHIN_S = 60.0
TOKEN_FOR_S = 24 * 3600
ANSWER_WITHIN_S = 10.0
REQUEST_MCPU = 100
"""What an executor asks for, so that more of them fit on this machine than it has cores."""
DRIVER_MEMORY_MB = 700
RULES = [
    {
        "apiGroups": [""],
        "resources": ["pods", "services", "configmaps", "persistentvolumeclaims"],
        "verbs": ["create", "get", "list", "watch", "update", "patch", "delete", "deletecollection"],
    }
]
"""The rights of a driver, as Spark needs them; ``docs/guides/clusters.md`` has the same."""


class KubernetesApi:
    """The API server of a local Kubernetes, with the rights of its administrator."""

    def __init__(self, url: str, certificate: Path, token: str) -> None:
        self._url = url
        self._token = token
        self._context = ssl.create_default_context(cafile=str(certificate))

    def __call__(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer to a request; an ``EngineError`` has the reason of one that is refused."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_WITHIN_S, context=self._context) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            try:
                text = json.loads(text)["message"]
            except (ValueError, KeyError, TypeError):
                text = text.strip() or str(error)
            raise EngineError(f"Kubernetes did not do {method} {path}: {text}") from error
        except OSError as error:
            raise EngineError(f"Kubernetes at {self._url} does not answer: {error}") from error


@dataclass(frozen=True)
class KubernetesPlan:
    """How Kubernetes is started: the folder, its number among those of this machine, and where its programs are."""

    directory: str
    number: int
    kube: str
    path: str
    cni: str
    token: str
    last_words: str | None = None

    @property
    def network(self) -> NodeNetwork:
        return NodeNetwork(self.number)

    @property
    def url(self) -> str:
        return f"https://{self.network.node}:{API_PORT}"

    @property
    def certificate(self) -> Path:
        """The certificate of the API server, which it writes itself."""
        return Path(self.directory, "keys", "apiserver.crt")

    @property
    def kubeconfig(self) -> Path:
        """The settings of an administrator's ``kubectl``."""
        return Path(self.directory, "admin.yaml")

    def api(self) -> KubernetesApi:
        return KubernetesApi(self.url, self.certificate, self.token)

    def servers(self) -> Iterator[ServerProcess]:
        folder = self.directory
        command = [sys.executable, "-m", "headgate.local.spark.kubernetes.node", folder, str(self.number)]
        yield ServerProcess("node", command, Path(folder, PID_FILE).exists, os.environ)
        self._configure()
        socket = f"{folder}/containerd.sock"
        yield self._daemon("containerd", ["containerd", "--config", f"{folder}/containerd.toml"], Path(socket).exists)
        for image in IMAGES:
            importing = ["ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", f"{image}.tar"]
            yield self._step(f"image-{image}", importing)
        store = ["etcd", "--data-dir", f"{folder}/etcd", "--unsafe-no-fsync", "--logger", "zap"]
        peers = "http://127.0.0.1:2380"
        store += ["--listen-client-urls", STORE, "--advertise-client-urls", STORE, "--listen-peer-urls", peers]
        yield self._daemon("etcd", store, Path(folder, "etcd", "member", "wal").exists)
        yield self._daemon("apiserver", [self.kube, "apiserver", *self._api_options()], self._answers)
        admin = f"--kubeconfig={self.kubeconfig}"
        controllers = [
            *(admin, "--leader-elect=false", f"--root-ca-file={self.certificate}"),
            f"--service-account-private-key-file={folder}/keys/accounts.pem",
        ]
        yield self._daemon("controller-manager", [self.kube, "controller-manager", *controllers], lambda: True)
        yield self._daemon("scheduler", [self.kube, "scheduler", admin, "--leader-elect=false"], lambda: True)
        kubelet = [
            *(f"--config={folder}/kubelet.json", f"--kubeconfig={folder}/node.yaml", f"--root-dir={folder}/kubelet"),
            *(f"--hostname-override={NODE}", f"--node-ip={self.network.node}"),
        ]
        yield self._daemon("kubelet", [self.kube, "kubelet", *kubelet], self._is_ready)

    def _api_options(self) -> list[str]:
        keys = f"{self.directory}/keys"
        return [
            *(f"--etcd-servers={STORE}", f"--advertise-address={self.network.node}", f"--secure-port={API_PORT}"),
            *(f"--cert-dir={keys}", f"--token-auth-file={keys}/tokens.csv", "--authorization-mode=Node,RBAC"),
            *(f"--service-account-key-file={keys}/accounts.pem", "--allow-privileged=true"),
            *(f"--service-account-signing-key-file={keys}/accounts.pem", f"--service-cluster-ip-range={SERVICES}"),
            "--service-account-issuer=https://kubernetes.default.svc",
            # Debian's etcd cannot report the progress of a watch, without which a cached one never starts.
            "--watch-cache=false",
        ]

    def _daemon(self, name: str, command: Sequence[str], is_up: Any) -> ServerProcess:
        return ServerProcess(name, self._entered(command), is_up, self._environment())

    def _step(self, name: str, command: Sequence[str]) -> ServerProcess:
        return ServerProcess(name, self._entered(command), None, self._environment())

    def _entered(self, command: Sequence[str]) -> list[str]:
        """Return a command that runs in the namespaces of the node, and in the folder of the plan."""
        first = Path(self.directory, PID_FILE).read_text()
        enter = ["nsenter", f"--target={first}", "--mount", "--net", "--pid", f"--wd={self.directory}"]
        return [*enter, "--", *command]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": self.path, "TMPDIR": self.directory}

    def _configure(self) -> None:
        folder = Path(self.directory)
        keys = folder / "keys"
        keys.mkdir(mode=0o700)
        with (keys / "accounts.pem").open("wb") as file:
            subprocess.run([self.kube, "key"], stdout=file, check=True)
        kubelet_token = secrets.token_hex(16)
        with (keys / "tokens.csv").open("w", newline="") as tokens:
            rows = csv.writer(tokens)
            rows.writerow([self.token, "admin", "admin", "system:masters"])
            rows.writerow([kubelet_token, f"system:node:{NODE}", NODE, "system:nodes"])
        self.kubeconfig.write_text(json.dumps(self._client_settings(self.token)))
        (folder / "node.yaml").write_text(json.dumps(self._client_settings(kubelet_token)))
        (folder / "kubelet.json").write_text(json.dumps(self._kubelet_settings()))
        (folder / "containerd.toml").write_text(self._runtime_settings())
        (folder / "network").mkdir()
        (folder / "network" / "10-bridge.conflist").write_text(json.dumps(self._pod_network()))

    def _client_settings(self, token: str) -> dict[str, Any]:
        server = {"server": self.url, "certificate-authority": str(self.certificate)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": NODE, "cluster": server}],
            "users": [{"name": NODE, "user": {"token": token}}],
            "contexts": [{"name": NODE, "context": {"cluster": NODE, "user": NODE}}],
            "current-context": NODE,
        }

    def _kubelet_settings(self) -> dict[str, Any]:
        least = {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"}
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{control_group(self.directory)}",
            "failSwapOn": False,
            "failCgroupV1": False,
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}},
            "authorization": {"mode": "Webhook"},
            "containerRuntimeEndpoint": f"unix://{self.directory}/containerd.sock",
            "evictionHard": least,
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "podLogsDir": f"{self.directory}/pod-logs",
            "clusterDNS": [],
            # Executors come and go all the time here.
            "registryPullQPS": 0,
            "kubeAPIQPS": 50,
            "kubeAPIBurst": 100,
        }

    def _runtime_settings(self) -> str:
        folder, cri = self.directory, 'plugins."io.containerd.grpc.v1.cri"'
        return f"""\
version = 2
root = "{folder}/containerd"
state = "{folder}/containers"
[grpc]
  address = "{folder}/containerd.sock"
[{cri}]
  sandbox_image = "headgate.local/pause:1"
  # Without the right to lower it below that of the runtime itself, no container would start.
  restrict_oom_score_adj = true
[{cri}.cni]
  bin_dir = "{self.cni}"
  conf_dir = "{folder}/network"
[{cri}.containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"
[{cri}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
"""

    def _pod_network(self) -> dict[str, Any]:
        addresses = {
            "type": "host-local",
            "dataDir": f"{self.directory}/addresses",
            "ranges": [[{"subnet": self.network.pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        # Without translated addresses: the route back leads over the cable. It ends at this machine.
        bridge = {"type": "bridge", "bridge": "pods0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
        return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, {"type": "loopback"}]}

    def _answers(self) -> bool:
        if not self.certificate.exists():
            return False
        try:
            # Its namespaces and roles are there a moment after it answers.
            self.api()("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node")
            return bool(self.api()("GET", "/api/v1/namespaces/default"))
        except (EngineError, OSError):
            return False

    def _is_ready(self) -> bool:
        try:
            nodes = self.api()("GET", "/api/v1/nodes")["items"]
            self.api()("GET", "/api/v1/namespaces/default/serviceaccounts/default")
        except EngineError:
            return False
        conditions = [condition for node in nodes for condition in node["status"].get("conditions", ())]
        return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


@dataclass(frozen=True)
class SubmittedDriver:
    """A driver that was submitted in cluster mode."""

    pod: str
    api: KubernetesApi = field(repr=False)

    @property
    def phase(self) -> str:
        """Such as ``Pending``, ``Running``, ``Succeeded`` or ``Failed``."""
        return str(self.api("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{self.pod}")["status"]["phase"])


class LocalKubernetes(LocalServers[KubernetesPlan, str]):
    """Kubernetes with a namespace, and an account in it that has the rights of Spark's drivers and no more.

    Pods see the programs of this machine; of other folders those named in ``folders``, which they may write to.
    """

    def __init__(self, folders: Sequence[Path] = (), executor_memory_mb: int = EXECUTOR_MEMORY_MB) -> None:
        self._folders = [folder.absolute() for folder in folders]
        self._executor_memory_mb = executor_memory_mb
        self._api: KubernetesApi | None = None
        super().__init__("kubernetes", "Kubernetes")

    @property
    def api(self) -> KubernetesApi:
        """The API server: ``api("GET", "/api/v1/nodes")``."""
        self._running()
        assert self._api is not None
        return self._api

    @property
    def url(self) -> str:
        """The address of the API server."""
        return self._running().url

    @property
    def kubeconfig(self) -> Path:
        """The settings of an administrator's ``kubectl``, for ``KUBECONFIG``."""
        return self._running().kubeconfig

    def start(self, *, detached: bool = False) -> str:
        """Start it and return the address of the API server."""
        found = kubernetes_tools()
        folder = self._make_directory()
        write_pause(Path(folder, "pause.tar"), Path(found.pause))
        write_spark(Path(folder, "spark.tar"))
        plan = KubernetesPlan(
            directory=folder,
            number=free_network().number,
            kube=found.kube,
            path=found.path,
            cni=found.cni,
            token=secrets.token_hex(16),
        )
        self._run(plan)
        self._api = plan.api()
        self._make_account()
        return plan.url

    def limit(self, **hard: str | int) -> None:
        """Set the quota of the namespace, such as ``pods=2``; without any, there is none."""
        quotas = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"
        body = {
            "metadata": {"name": "limit"},
            "spec": {"hard": {name.replace("__", "."): str(value) for name, value in hard.items()}},
        }
        names = [quota["metadata"]["name"] for quota in self.api("GET", quotas)["items"]]
        if hard and "limit" in names:
            self.api("PATCH", f"{quotas}/limit", body)
        elif hard:
            self.api("POST", quotas, body)
        elif "limit" in names:
            self.api("DELETE", f"{quotas}/limit")

    def accept_pods(self, *, accept: bool) -> None:
        """Let the node take new pods or not; those that run stay."""
        self.api("PATCH", f"/api/v1/nodes/{NODE}", {"spec": {"unschedulable": not accept}})

    def pods(self) -> dict[str, str]:
        """The phase of each pod of the namespace, by its name."""
        found = self.api("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        return {pod["metadata"]["name"]: pod["status"].get("phase", "Unknown") for pod in found}

    def session(self, name: str, executors: int = 1, settings: Mapping[str, str] | None = None) -> SparkSession:
        """Return a session in client mode; no other one may have been started in this process."""
        chosen = self.settings(executors) | dict(settings or {})
        return plain_session(f"k8s://{self.url}", name, chosen, self.directory / "driver.log")

    def submit(
        self,
        program: Path,
        arguments: Sequence[str] = (),
        name: str = "job",
        executors: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> SubmittedDriver:
        """Submit a Python program in cluster mode, whose driver is a pod, and return when its pod was made."""
        plan = self._running()
        pod = f"{name}-driver"
        own = {
            "spark.kubernetes.driver.pod.name": pod,
            "spark.kubernetes.submission.waitAppCompletion": "false",
            "spark.kubernetes.authenticate.driver.serviceAccountName": ACCOUNT,
            "spark.kubernetes.authenticate.submission.caCertFile": str(plan.certificate),
            "spark.kubernetes.authenticate.submission.oauthTokenFile": str(self._token_file("admin", plan.token)),
            # Without DNS in the cluster, the API server has no other name there.
            "spark.kubernetes.driver.master": self.url,
            "spark.kubernetes.driver.request.cores": f"{REQUEST_MCPU}m",
            "spark.driver.memory": f"{DRIVER_MEMORY_MB}m",
            **self._container_settings("driver"),
        }
        chosen = self._common_settings(executors) | own | dict(settings or {})
        submit(
            f"k8s://{self.url}",
            f"local://{program.absolute()}",
            arguments,
            name,
            chosen,
            {"SPARK_LOCAL_IP": plan.network.host},
        )
        return SubmittedDriver(pod, self.api)

    def settings(self, executors: int = 1) -> dict[str, str]:
        """Spark settings for a session whose driver is this process."""
        plan = self._running()
        host = plan.network.host
        return self._common_settings(executors) | {
            "spark.driver.host": host,
            "spark.driver.bindAddress": host,
            "spark.kubernetes.authenticate.caCertFile": str(plan.certificate),
            "spark.kubernetes.authenticate.oauthTokenFile": str(plan.certificate.with_name(f"{ACCOUNT}.token")),
        }

    def _common_settings(self, executors: int) -> dict[str, str]:
        common = local_settings(executors, self._executor_memory_mb)
        for name in ("spark.driver.host", "spark.driver.bindAddress"):
            del common[name]
        return {name: value for name, value in common.items() if ".dynamicAllocation." not in name} | {
            "spark.dynamicAllocation.enabled": "false",
            "spark.executor.instances": str(executors),
            "spark.kubernetes.namespace": NAMESPACE,
            "spark.kubernetes.container.image": SPARK,
            "spark.kubernetes.container.image.pullPolicy": "Never",
            "spark.kubernetes.executor.request.cores": f"{REQUEST_MCPU}m",
            "spark.pyspark.python": sys.executable,
            "spark.pyspark.driver.python": sys.executable,
            **self._container_settings("executor"),
        }

    def _container_settings(self, role: str) -> dict[str, str]:
        """What the containers of drivers or executors see of this machine."""
        prefix = "spark.executorEnv" if role == "executor" else "spark.kubernetes.driverEnv"
        found = {
            f"{prefix}.SPARK_HOME": spark_home(),
            f"{prefix}.JAVA_HOME": str(Path(java(needed_by="Spark")).resolve().parent.parent),
            f"{prefix}.PYSPARK_PYTHON": sys.executable,
        }
        volumes = [(folder, "true") for folder in mounted()] + [(folder, "false") for folder in self._folders]
        for number, (folder, is_read_only) in enumerate(volumes):
            key = f"spark.kubernetes.{role}.volumes.hostPath.machine-{number}"
            found[f"{key}.mount.path"] = found[f"{key}.options.path"] = str(folder)
            found[f"{key}.mount.readOnly"] = is_read_only
        return found

    def _make_account(self) -> None:
        of_namespace = f"/api/v1/namespaces/{NAMESPACE}"
        roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
        named = {"metadata": {"name": ACCOUNT}}
        self.api("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.api("POST", f"{of_namespace}/serviceaccounts", named)
        self.api("POST", f"{roles}/roles", {**named, "rules": RULES})
        subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT}
        self.api("POST", f"{roles}/rolebindings", {**named, "subjects": [subject], "roleRef": role})
        # The account of the namespace itself follows a moment later; pods cannot be made before.
        until_s = time.monotonic() + READY_WITHIN_S
        while not self._has_account("default"):
            if time.monotonic() > until_s:
                raise EngineError(f"Kubernetes made no default account within {READY_WITHIN_S:.0f} s.")
            time.sleep(POLL_S)
        request = {"spec": {"expirationSeconds": TOKEN_FOR_S}}
        answer = self.api("POST", f"{of_namespace}/serviceaccounts/{ACCOUNT}/token", request)
        self._token_file(ACCOUNT, answer["status"]["token"])

    def _has_account(self, name: str) -> bool:
        accounts = self.api("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts")["items"]
        return any(account["metadata"]["name"] == name for account in accounts)

    def _token_file(self, name: str, token: str) -> Path:
        file = self._running().certificate.with_name(f"{name}.token")
        file.touch(mode=0o600)
        file.write_text(token)
        return file
