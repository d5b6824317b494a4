"""What a local Kubernetes is made of, made once and cached: one binary of its own parts, and those of Debian.

The parts of Kubernetes are built from its Go modules, whose versions and sums are in ``go/go.mod`` and ``go/go.sum``.
The container runtime and the store are Debian's packages; they are unpacked into the cache, and nothing is installed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from headgate.core.errors import FetchError, InputError
from headgate.local.jars import cache_directory, workshop

PACKAGES = ("containerd", "runc", "etcd-server", "containernetworking-plugins")
PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "etcd")
ON_THE_MACHINE = ("ip", "mount", "nsenter")
TO_BUILD = ("go",)
TO_UNPACK = ("apt-get", "dpkg-deb")
SOURCES = ("go.mod", "go.sum", "main.go", "pause/main.go")
BUILT = ("kube", "pause")
ABOUT = "about ten minutes of one core"


@dataclass(frozen=True)
class KubernetesTools:
    """Where the programs are."""

    kube: str
    pause: str
    path: str
    """The search path on which the others are found."""
    cni: str
    """The folder of the network plugins."""


@cache
def version() -> str:
    """The version of Kubernetes that is built."""
    found = re.search(r"k8s\.io/kubernetes v(\S+)", _source("go.mod"))
    assert found is not None
    return found[1]


def kubernetes_tools() -> KubernetesTools:
    """Return the programs, made when first needed; an ``InputError`` says what this machine lacks for that."""
    _check_machine()
    base = cache_directory() / "kubernetes"
    debian, built = base / "debian", base / f"{version()}-{_digest()}"
    path = _search_path(debian)
    if missing := [name for name in PROGRAMS if shutil.which(name, path=path) is None]:
        _need(TO_UNPACK, f"to unpack {', '.join(missing)}")
        _unpack(debian)
    if not all((built / name).exists() for name in BUILT):
        _need(TO_BUILD, f"to build Kubernetes {version()} (Go 1.24 or newer)")
        _build(built)
    cni = next((folder for folder in _plugin_folders(debian) if (folder / "bridge").exists()), None)
    if cni is None:
        raise InputError(f"a local Kubernetes needs the network plugins of CNI; none of {_plugin_folders(debian)} has.")
    return KubernetesTools(str(built / "kube"), str(built / "pause"), path, str(cni))


def _check_machine() -> None:
    if sys.platform != "linux":
        raise InputError(f"a local Kubernetes needs Linux; this is {sys.platform}.")
    if os.geteuid() != 0:
        raise InputError(
            f"a local Kubernetes needs root, for namespaces and control groups; this is user {os.geteuid()}."
        )
    _need(ON_THE_MACHINE, "for its namespaces")
    if not os.access("/sys/fs/cgroup", os.W_OK):
        raise InputError("a local Kubernetes needs control groups that it may write to; /sys/fs/cgroup is read-only.")


def _need(programs: Sequence[str], why: str) -> None:
    if missing := [name for name in programs if shutil.which(name) is None]:
        raise InputError(f"a local Kubernetes needs {', '.join(missing)} {why}; not found on the PATH.")


def _search_path(debian: Path) -> str:
    own = [str(debian / folder) for folder in ("usr/bin", "usr/sbin")]
    return os.pathsep.join([*os.environ.get("PATH", os.defpath).split(os.pathsep), *own])


def _plugin_folders(debian: Path) -> list[Path]:
    return [Path("/usr/lib/cni"), Path("/opt/cni/bin"), debian / "usr/lib/cni"]


def _source(name: str) -> str:
    return files("headgate.local.spark.kubernetes").joinpath("go", name).read_text()


def _digest() -> str:
    return hashlib.sha256("".join(map(_source, SOURCES)).encode()).hexdigest()[:12]


def _unpack(directory: Path) -> None:
    what = f"{', '.join(PACKAGES)} of Debian"
    with workshop(what, directory.parent) as folder:
        sys.stderr.write(f"fetching {what}\n")
        # Fetched by root itself: the user that apt would otherwise become may not write there.
        _run(["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *PACKAGES], folder, what)
        for package in sorted(folder.glob("*.deb")):
            _run(["dpkg-deb", "--extract", package.name, "unpacked"], folder, what)
        shutil.rmtree(directory, ignore_errors=True)
        (folder / "unpacked").rename(directory)


def _build(directory: Path) -> None:
    what = f"Kubernetes {version()}"
    with workshop(what, directory.parent) as folder:
        if all((directory / name).exists() for name in BUILT):
            return  # Another process has built it meanwhile.
        sys.stderr.write(f"building {what} from its Go modules, once: {ABOUT}\n")
        for name in SOURCES:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(_source(name))
        environment = {
            "GOMODCACHE": str(folder / "modules"),
            "GOCACHE": str(folder / "objects"),
            # Modules are made writable, so that their folder can be removed.
            "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false -trimpath",
            "CGO_ENABLED": "0",
            "GOWORK": "off",
        }
        stamp = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in _version_stamp().items())
        build = ["go", "build", "-v", "-tags", "providerless", "-ldflags", f"-s -w {stamp}", "-o"]
        (folder / "built").mkdir()
        _run([*build, "built/kube", "."], folder, what, environment)
        _run([*build, "built/pause", "./pause"], folder, what, environment)
        shutil.rmtree(directory, ignore_errors=True)
        (folder / "built").rename(directory)


def _version_stamp() -> dict[str, str]:
    major, minor, _ = version().split(".", 2)
    return {"gitVersion": f"v{version()}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}


def _run(command: Sequence[str], folder: Path, what: str, environment: Mapping[str, str] | None = None) -> None:
    """Run a step, and count its lines where there is somebody to watch."""
    watched = sys.stderr.isatty()
    lines: list[str] = []
    with subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | dict(environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                lines.append(line.strip())
                if watched:
                    sys.stderr.write(f"\r{what}: {len(lines)} steps")
        except BaseException:
            process.kill()
            raise
    if watched and lines:
        sys.stderr.write("\n")
    if process.returncode != 0:
        last = next((line for line in reversed(lines) if line), "it printed nothing")
        raise FetchError(f"{what} cannot be had: {command[0]} ended with exit code {process.returncode}: {last}.")
