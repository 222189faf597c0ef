"""The clients that this environment has anyway, driven as `python -m benchmarks clients` does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.clients.report import driven
from benchmarks.clients.roster import client_packages


@pytest.mark.parametrize(("name", "variant"), [("openai", "chat"), ("openai", "responses")])
def test_a_client_does_all_that_its_driver_asks_of_it(name, variant):
    [client] = [client for client in client_packages() if client.name == name]
    row = driven(client, variant, Path(sys.executable))
    assert row["fault"] is None
    assert {"answer", "stream", "loop", "streamed_loop", "form"} <= row["features"].keys()
    assert set(row["features"].values()) == {None}
