"""The process that holds the namespaces of a local Kubernetes: whatever runs or is mounted in them ends with it.

Run as ``python -m headgate.local.spark.kubernetes.node DIRECTORY NUMBER``. The node has processes, mounts and a network
of its own; one cable leads from it to this machine. Folders in which its daemons would leave traces are covered by
layers in memory, and so are the settings of the kernel that the kubelet would change.

It ends on SIGTERM and with its parent, the warden. Its control groups are removed then, and the folder too if the
warden can no longer do so; all else goes with the namespaces.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import NoReturn

from headgate.core.errors import EngineError

PID_FILE = "node.pid"
"""In the folder of the node: the process whose namespaces its daemons enter."""
NODE_END = "eth0"
MOST_NODES = 200
LAYERED = ("/run", "/var/lib", "/var/log")
"""Where daemons of a node write no matter what they are configured to."""
KERNEL_SETTINGS = (
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"),
    *("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"),
)
CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG = 1
REMOVE_GROUPS_WITHIN_S = 5.0


@dataclass(frozen=True)
class NodeNetwork:
    """The addresses of a node; ``number`` tells nodes apart that run on this machine at the same time.

    >>> NodeNetwork(3).node, NodeNetwork(3).host, NodeNetwork(3).pods
    ('10.201.3.2', '10.201.3.1', '10.202.3.0/24')
    """

    number: int

    @property
    def host(self) -> str:
        """The end of the cable on this machine."""
        return f"10.201.{self.number}.1"

    @property
    def node(self) -> str:
        """The end of the cable in the node."""
        return f"10.201.{self.number}.2"

    @property
    def pods(self) -> str:
        return f"10.202.{self.number}.0/24"

    @property
    def cable(self) -> str:
        """The name of its end on this machine."""
        return f"hgk{self.number}"

    def is_free(self) -> bool:
        """Whether no other node has these addresses, and no route of this machine leads to them."""
        ours = (IPv4Network(f"{self.host}/30", strict=False), IPv4Network(self.pods))
        return not Path("/sys/class/net", self.cable).exists() and not any(
            network.overlaps(route) for network in ours for route in _routes()
        )


def free_network() -> NodeNetwork:
    """Return addresses that nobody uses."""
    for number in range(MOST_NODES):
        if (network := NodeNetwork(number)).is_free():
            return network
    raise EngineError(f"there is no free network for a local Kubernetes among {MOST_NODES} from 10.201.0.0/30 on.")


def _routes() -> Iterator[IPv4Network]:
    """The networks that this machine has a route to, but for the rest of the world."""
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        fields = line.split()
        address, mask = (int.from_bytes(bytes.fromhex(fields[index]), "little") for index in (1, 7))
        if mask:
            yield IPv4Network((address, mask.bit_count()))


def control_group(directory: str | Path) -> str:
    """The control group of a node's pods, below the root of each hierarchy."""
    return Path(directory).name


class NodeNamespaces:
    """The namespaces of one node."""

    def __init__(self, directory: Path, network: NodeNetwork) -> None:
        self._directory = directory
        self._network = network
        self._groups = [Path(mount, control_group(directory)) for mount in _hierarchies()]

    def hold(self) -> int:
        """Make the namespaces, and remove them when this process is to end."""
        parent = os.getppid()
        _die_with_parent(signal.SIGTERM)
        # Blocked at first, so that nothing is left half made; the child inherits that and undoes it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
        unshared, connected = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            self._inside(unshared[1], connected[0])
        try:
            if os.read(unshared[0], 1):
                self._connect(child)
                for group in self._groups:
                    group.mkdir()
                os.write(connected[1], b"+")
            _await_end(child)
        finally:
            os.kill(child, signal.SIGTERM)
            _, status = os.waitpid(child, 0)
            self._remove_groups()
            if os.getppid() != parent:
                # Its warden was killed, which would have removed it.
                shutil.rmtree(self._directory, ignore_errors=True)
        return os.waitstatus_to_exitcode(status)

    def _connect(self, child: int) -> None:
        """Lay the cable to the namespace of a process."""
        network = self._network
        _ip("link", "add", network.cable, "type", "veth", "peer", "name", NODE_END, "netns", str(child))
        _ip("address", "add", f"{network.host}/30", "dev", network.cable)
        _ip("link", "set", network.cable, "up")
        _ip("route", "add", network.pods, "via", network.node)

    def _inside(self, unshared: int, connected: int) -> NoReturn:
        """Live in the namespaces until SIGTERM, and end them; never returns."""
        code = 1
        try:
            _die_with_parent(signal.SIGKILL)
            _libc("unshare", CLONE_NEWNS | CLONE_NEWNET)
            os.write(unshared, b"+")
            if os.read(connected, 1):
                _mount("--make-rprivate", "/")
                self._cover()
                _ip("link", "set", "lo", "up")
                _ip("address", "add", f"{self._network.node}/30", "dev", NODE_END)
                _ip("link", "set", NODE_END, "up")
                # Not before: the next process that is started is the first of the namespace, which ends with it.
                _libc("unshare", CLONE_NEWPID)
                first = os.fork()
                if first == 0:
                    _reap()
                file = self._directory / PID_FILE
                file.with_suffix(".new").write_text(str(first))
                file.with_suffix(".new").replace(file)
                _await_end(first)
                os.kill(first, signal.SIGKILL)
                os.waitpid(first, 0)  # It returns when all processes of the namespace are gone.
                code = 0
        except (OSError, EngineError) as error:
            sys.stderr.write(f"{error}\n")
            sys.stderr.flush()
        os._exit(code)

    def _cover(self) -> None:
        """Cover what the daemons would change outside of their folder."""
        layers = self._directory / "layers"
        layers.mkdir()
        _mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", str(layers))
        for folder in LAYERED:
            upper, work = (layers / f"{name}{folder.replace('/', '-')}" for name in ("upper", "work"))
            upper.mkdir()
            work.mkdir()
            _mount("-t", "overlay", "-o", f"lowerdir={folder},upperdir={upper},workdir={work}", "overlay", folder)
        for name in KERNEL_SETTINGS:
            setting, copy = Path("/proc/sys", name), layers / name.replace("/", "-")
            copy.write_text(setting.read_text())
            _mount("--bind", str(copy), str(setting))

    def _remove_groups(self) -> None:
        until_s = time.monotonic() + REMOVE_GROUPS_WITHIN_S
        for group in self._groups:
            # The deepest first: a group with others in it cannot be removed, nor one whose processes are not yet gone.
            for folder, _, _ in os.walk(group, topdown=False):
                while Path(folder).exists():
                    try:
                        Path(folder).rmdir()
                    except OSError as error:
                        if time.monotonic() > until_s:
                            sys.stderr.write(f"{error}\n")
                            break
                        time.sleep(0.05)


def _hierarchies() -> list[str]:
    """Where control groups are mounted."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return [fields[1] for fields in mounts if fields[2] in {"cgroup", "cgroup2"}]


def _reap() -> NoReturn:
    """Be the first process of a namespace, the parent of all that have lost theirs."""
    _die_with_parent(signal.SIGKILL)
    # In place of that of the machine, whose numbers of processes mean nothing here.
    _mount("-t", "proc", "proc", "/proc")
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            continue


def _await_end(child: int) -> None:
    """Wait until a child has ended, or for SIGTERM."""
    ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
    # SIGCHLD may be of another child, of before.
    while os.waitid(os.P_PID, child, ended) is None:
        if signal.sigwait({signal.SIGTERM, signal.SIGCHLD}) == signal.SIGTERM:
            return


def _die_with_parent(number: signal.Signals) -> None:
    _libc("prctl", PR_SET_PDEATHSIG, number)


def _libc(function: str, *arguments: int) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _mount(*arguments: str) -> None:
    _run("mount", *arguments)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EngineError(f"{' '.join(command)}: {done.stderr.strip() or f'exit code {done.returncode}'}")


def main() -> int:
    directory, number = sys.argv[1:]
    try:
        return NodeNamespaces(Path(directory), NodeNetwork(int(number))).hold()
    except (OSError, EngineError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
