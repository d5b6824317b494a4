"""What runs first in a container of Spark on a local Kubernetes, as the script does in Spark's own images.

Spark, Java and Python are those of this machine. Spark says in arguments and variables what a container is to run.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
OPTION = "SPARK_JAVA_OPT_"
DRAINED_WITHIN_S = 60.0


def command(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return what to run for the arguments that Spark gives a container.

    >>> command(["driver", "job.py"], {"SPARK_HOME": "/spark", "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7"})
    ['/spark/bin/spark-submit', '--conf', 'spark.driver.bindAddress=10.0.0.7', '--deploy-mode', 'client', 'job.py']
    >>> command(["true"], {})
    ['true']
    """
    role, rest = arguments[0], arguments[1:]
    if role == "driver":
        address = f"spark.driver.bindAddress={environment['SPARK_DRIVER_BIND_ADDRESS']}"
        return [f"{environment['SPARK_HOME']}/bin/spark-submit", "--conf", address, "--deploy-mode", "client", *rest]
    if role != "executor":
        return list(arguments)
    numbers = sorted(int(name.removeprefix(OPTION)) for name in environment if name.startswith(OPTION))
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    values = {
        "driver-url": "SPARK_DRIVER_URL",
        "executor-id": "SPARK_EXECUTOR_ID",
        "cores": "SPARK_EXECUTOR_CORES",
        "app-id": "SPARK_APPLICATION_ID",
        "hostname": "SPARK_EXECUTOR_POD_IP",
        "resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
        "podName": "SPARK_EXECUTOR_POD_NAME",
    }
    return [
        f"{environment['JAVA_HOME']}/bin/java",
        *(environment[f"{OPTION}{number}"] for number in numbers),
        *(f"-Xms{memory}", f"-Xmx{memory}"),
        *("-cp", f"{environment.get('SPARK_CLASSPATH', '')}:{environment['SPARK_HOME']}/jars/*", BACKEND),
        *(part for name, variable in values.items() for part in (f"--{name}", environment[variable])),
    ]


def decommission() -> None:
    """Ask the executor to leave, and wait until it has, as a pod that is deleted does before it gets SIGTERM."""
    os.kill(1, signal.SIGPWR)
    until_s = time.monotonic() + DRAINED_WITHIN_S
    while time.monotonic() < until_s:
        try:
            os.kill(1, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)


def main() -> None:
    if sys.argv[1:] == ["decommission"]:
        decommission()
        return
    found = command(sys.argv[1:], os.environ)
    os.execvp(found[0], found)


if __name__ == "__main__":
    main()
