"""The container of the dashboard can be built, if a builder with a network is present."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from core import paths

_BUILDER = next(filter(shutil.which, ("podman", "docker")), None)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_container_is_built_and_refuses_to_serve_others_without_a_login() -> None:
    if _BUILDER is None:
        pytest.skip("no builder of containers: install podman or docker")
    if subprocess.run([_BUILDER, "info"], capture_output=True, timeout=60, check=False).returncode:
        pytest.skip(f"{_BUILDER} is installed, but its daemon does not run")
    build = [_BUILDER, "build", "-t", "anamnesis-test", "-f", "Containerfile", "."]
    done = subprocess.run(build, cwd=paths.ROOT, capture_output=True, text=True, timeout=1700, check=False)
    if "python:3.11-slim" in done.stderr and done.returncode:
        pytest.skip("the base image cannot be had: connect to the network")
    assert done.returncode == 0, done.stderr[-2000:]
    served = subprocess.run([_BUILDER, "run", "--rm", "anamnesis-test"], capture_output=True, text=True, check=False)
    assert (served.returncode, served.stderr.startswith("There is no login")) == (2, True)
