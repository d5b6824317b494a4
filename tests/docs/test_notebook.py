"""The notebook runs from its first cell to its last, and shows what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "examples/quickstart.ipynb"
# In a process of its own, which takes Jupyter's sockets with it. They lie in a folder, whose path must be short; by TCP
# anybody on this machine could listen.
EXECUTE = """
import sys, tempfile
import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

notebook = nbformat.read(sys.argv[1], as_version=4)
with tempfile.TemporaryDirectory() as folder:
    kernel = Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}})
    NotebookClient(notebook, config=kernel, kernel_name="python3", timeout=120, startup_timeout=120).execute()
nbformat.write(notebook, sys.argv[2])
"""


def test_the_notebook_runs_compares_and_plots(tmp_path: Path) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells), "outputs are made, not committed"
    done = tmp_path / "done.ipynb"
    subprocess.run([sys.executable, "-c", EXECUTE, str(NOTEBOOK), str(done)], check=True, timeout=280)
    cells = json.loads(done.read_text(encoding="utf-8"))["cells"]
    shown = [output for cell in cells for output in cell.get("outputs", [])]
    text = "".join("".join(output["text"]) for output in shown if output["output_type"] == "stream")
    assert "instance-hours" in text
    assert all(policy in text for policy in ("autopilot", "reactive", "hpa"))
    assert sum("image/png" in output.get("data", {}) for output in shown) == 2
    assert not any(output.get("name") == "stderr" for output in shown)
