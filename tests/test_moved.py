"""Names of 0.1 that its documentation showed are found where they were, with a warning, for one release."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import agentform
from tests.support.public_names import is_public
from tests.test_layering import MOVED

PACKAGE = Path(agentform.__file__).parent
SHOWN = {
    "agentform.agent.testing": ["Call", "Fail", "Fill", "Say", "ScriptedEngine", "assert_calls", "scripted_call"],
    "agentform.cache_view": ["show_statistics"],
    "agentform.calls.frame": ["learn_frame"],
    "agentform.plan": ["show_hints", "show_plan"],
    "agentform.run_context": ["RunContext"],
    "agentform.runtime.paths": ["models_folder"],
    "agentform.runtime.sglang.engine": ["SGLangEngine"],
    "agentform.runtime.sglang.retry_policy": ["RetryPolicy"],
    "agentform.runtime.sglang.server": ["SGLangServer"],
    "agentform.runtime.sglang.snapshot_settings": ["SnapshotSettings"],
    "agentform.runtime.sglang.snapshot_statistics": ["SnapshotPoolStatistics", "read_snapshot_statistics"],
    "agentform.runtime.torch.snapshot_codec": ["SnapshotCodec"],
    "agentform.schema.load": ["Target", "load"],
    "agentform.serve.run": ["Server"],
    "agentform.tool_policy": ["OnToolError", "ToolPolicy"],
    "agentform.tuning_view": ["probe_target", "read_texts"],
}
STAYED = [
    ("agentform.runtime.engine", "Engine"),
    ("agentform.runtime.load", "load_engine"),
    ("agentform.runtime.torch.engine", "TorchEngine"),
    ("agentform.runtime.cache.statistics", "CacheStatistics"),
    ("agentform.schema.form", "leaves"),
    ("agentform.agent.observer", "Observer"),
    ("agentform.agent.approval", "Approve"),
    ("agentform.serve.app", "Service"),
    ("agentform.serve.settings", "ServerSettings"),
    ("agentform.tools", "tool"),
    ("agentform.tools", "Toolbox"),
    ("agentform.cli", "main"),
    ("agentform.runtime.sglang.plugin", "register"),
]


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in SHOWN.items() for name in names])
def test_an_old_name_is_the_new_one_and_says_where_that_is(module, name):
    with pytest.warns(DeprecationWarning, match=rf"{module}\.{name} is agentform[.a-z_]*\.\w+ now") as said:
        old = getattr(importlib.import_module(module), name)
    where, _, new = str(said[0].message).split(" is ")[1].split(" now")[0].rpartition(".")
    assert old is getattr(importlib.import_module(where), new)
    assert is_public(f"{where}.{new}")
    assert said[0].filename == __file__


@pytest.mark.parametrize("module", SHOWN)
def test_an_old_module_has_no_other_names(module):
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = importlib.import_module(module).other


def test_every_module_that_stays_for_old_names_is_tested():
    assert {f"agentform.{name}" for name in MOVED} - {"agentform.calls"} == set(SHOWN)


@pytest.mark.parametrize(("module", "name"), STAYED)
def test_what_stayed_is_there_without_a_warning(module, name):
    assert getattr(importlib.import_module(module), name)


def test_a_script_sees_the_warning_at_its_own_line(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys\nfrom agentform.schema.load import load\nprint(load.__name__)\n")
    done = subprocess.run([sys.executable, "-W", "always", str(script)], capture_output=True, text=True, check=True)
    assert done.stdout == "load\n"
    assert f"{script}:2: DeprecationWarning: agentform.schema.load.load is agentform.schema.load_target" in done.stderr
