"""Images for a local Kubernetes, made from files of this machine: none is fetched."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headgate.local.machine import java, spark_home

PAUSE, SPARK = "headgate.local/pause:1", "headgate.local/spark:1"
DECOMMISSION = "/opt/decom.sh"
"""Where Spark expects the script that a pod runs before it ends."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
ROOT_LINKS = ("bin", "sbin", "lib", "lib64")
EMPTY = ("dev", "etc", "opt", "proc", "root", "run", "sys", "tmp", "usr", "var")
ACCOUNTS = {"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n"}


@dataclass(frozen=True)
class File:
    """A file of an image."""

    content: bytes
    is_program: bool = False


def write_image(archive: Path, name: str, entrypoint: Sequence[str], content: Mapping[str, File | str | None]) -> None:
    """Write an image of one layer, as ``ctr images import`` takes it.

    ``content`` has files, links by where they lead to, and folders, which are ``None``.
    """
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for path, entry in content.items():
            info = tarfile.TarInfo(path)
            if entry is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o1777 if path == "tmp" else 0o755
            elif isinstance(entry, str):
                info.type, info.linkname = tarfile.SYMTYPE, entry
            else:
                info.size, info.mode = len(entry.content), 0o755 if entry.is_program else 0o644
            tar.addfile(info, io.BytesIO(entry.content) if isinstance(entry, File) else None)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = {
        "architecture": ARCHITECTURES.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {"Entrypoint": list(entrypoint), "Env": ["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": [f"{digest}.tar"]}]
    with tarfile.open(archive, "w") as tar:
        parts = {"config.json": config, "manifest.json": manifest}
        for path, data in {
            **{path: json.dumps(part).encode() for path, part in parts.items()},
            f"{digest}.tar": layer.getvalue(),
        }.items():
            info = tarfile.TarInfo(path)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def write_pause(archive: Path, program: Path) -> None:
    """Write the image of what holds the namespaces of a pod."""
    write_image(archive, PAUSE, ["/pause"], {"pause": File(program.read_bytes(), is_program=True)})


def write_spark(archive: Path) -> None:
    """Write the image of Spark's containers, which find all else in ``mounted``."""
    script = f"#!/bin/sh\nexec {sys.executable} -m {CONTAINER} decommission\n"
    content: dict[str, File | str | None] = dict.fromkeys(EMPTY)
    content |= {name: str(Path(f"/{name}").readlink()) for name in ROOT_LINKS if Path(f"/{name}").is_symlink()}
    content |= {path: File(text.encode()) for path, text in ACCOUNTS.items()}
    for path in ("/etc/ld.so.cache", "/etc/nsswitch.conf"):
        if Path(path).exists():
            content[path[1:]] = File(Path(path).read_bytes())
    content[DECOMMISSION[1:]] = File(script.encode(), is_program=True)
    write_image(archive, SPARK, [sys.executable, "-m", CONTAINER], content)


CONTAINER = "headgate.local.spark.kubernetes.container"


def mounted() -> list[Path]:
    """The folders of this machine that Spark's containers see: programs, libraries, Python, Java, Spark, Headgate."""
    own = [Path(name) for name in ROOT_LINKS if Path(f"/{name}").is_dir() and not Path(f"/{name}").is_symlink()]
    programs = [Path(java(needed_by="Spark")).resolve().parent.parent, Path(spark_home())]
    # Packages of Java have their settings there.
    settings = [path for path in Path("/etc").glob("java*") if path.is_dir()]
    python = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[4]]
    found: list[Path] = []
    for path in sorted({Path("/usr"), *(Path("/", path) for path in own), *programs, *settings, *python}):
        if path.is_dir() and not any(path.is_relative_to(outer) for outer in found):
            found.append(path)
    return found
