from __future__ import annotations

import importlib
import json
import re

import pytest

from benchmarks.__main__ import BENCHMARKS
from benchmarks.common.command import main
from benchmarks.common.harness import ROOT
from benchmarks.common.parts import last_figures
from studies.__main__ import STUDIES

MODULE = """
def add_arguments(parser):
    parser.add_argument("--size", type=int, default=1)

def run(context):
    context.write({"size": context.options["size"]}, seeds=[3])
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    (tmp_path / "small_benchmark.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return {"small": "small_benchmark"}


@pytest.mark.parametrize("module", sorted({**BENCHMARKS, **STUDIES}.values()))
def test_every_benchmark_that_has_a_name_can_be_run(module):
    if module.startswith(("benchmarks.sglang", "benchmarks.gpu")):
        pytest.importorskip("httpx")
    assert callable(importlib.import_module(module).run)


def test_what_a_benchmark_gives_goes_to_its_result_file(modules, tmp_path):
    main("python -m benchmarks", modules, results=tmp_path / "results", argv=["small", "--size", "5"])
    written = json.loads((tmp_path / "results" / "small.json").read_text())
    assert written["figures"] == {"size": 5}
    assert written["seeds"] == [3]


def test_a_quick_run_writes_nothing(modules, tmp_path):
    main("python -m benchmarks", modules, results=tmp_path / "results", argv=["small", "--quick"])
    assert not (tmp_path / "results").exists()


def test_the_help_of_a_benchmark_has_its_own_options(modules, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main("python -m benchmarks", modules, results=tmp_path, argv=["small", "--help"])
    assert "--size" in capsys.readouterr().out


def test_a_folder_of_data_that_is_missing_is_a_usage_error(modules, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main("python -m benchmarks", modules, results=tmp_path, argv=["small", "--data", str(tmp_path / "no")])
    assert ended.value.code == 2
    assert "is not a folder" in capsys.readouterr().err


def test_without_a_result_there_are_no_figures_to_keep(tmp_path):
    from benchmarks.common.harness import Context

    context = Context(name="small", data=None, quick=False, results=tmp_path)
    assert last_figures(context) == {}
    context.write({"a": 1})
    assert last_figures(context) == {"a": 1}


def test_what_can_be_run_has_a_name():
    run = {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        for folder in ("benchmarks", "studies")
        for path in (path.relative_to(ROOT) for path in (ROOT / folder).rglob("*.py"))
        if "__init__" in path.name or len(path.parts) < 4
        if re.search(
            r"^(?:def run\(context: Context\) -> None:|from .* import .*\brun\b)",
            (ROOT / path).read_text(),
            re.MULTILINE,
        )
    }
    inside = {
        "benchmarks.bfcl.report",
        "benchmarks.peers.benchmark",
        "benchmarks.cache.traces.report",
        "studies.forms.parts",
        "studies.snapshots.parts",
    }
    assert run - inside == {*BENCHMARKS.values(), *STUDIES.values()}
