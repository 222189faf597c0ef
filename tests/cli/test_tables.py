"""Every view of the command line at 80 and at 120 columns: nothing is wider, and no word is cut."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from agentform import Usage
from agentform.cli.cache_advise import Workload, _room_table, _way_table, _ways, advise
from agentform.cli.cache_horizons import _layer_table, _policy_table
from agentform.cli.cache_stats import folder_view, show_statistics, statistics_view
from agentform.cli.cache_trace import stream_like
from agentform.cli.demo.view import Cost, cost_table, evidence_table
from agentform.cli.plan import show_plan
from agentform.cli.tables import Table
from agentform.cli.tune import _trials
from agentform.forms.scoring import Scoring
from agentform.forms.tuning import Trial, Tuned
from agentform.messages import Alternative, Evidence
from agentform.runtime.cache.statistics import CacheStatistics, ConversationStatistics, TierStatistics
from agentform.runtime.cache.working_set import WorkingSet
from agentform.runtime.snapshots.horizons import Horizons, LayerHorizons
from agentform.runtime.snapshots.plan import LayerGeometry
from agentform.schema.target import load
from agentform.telemetry import HitRateHistory

ROOT = Path(__file__).parents[2]
WIDTHS = [80, 120]
LARGE = 123_456_789


def shown(view, width):
    console = Console(width=width, file=io.StringIO())
    view(console) if callable(view) else console.print(view)
    return console.file.getvalue()


def words(text):
    return re.findall(r"[^\s│┃┏┓┗┛┡┩╇┳━─└┘┴├┤┼┌┐┬]+", text)


def check(view, width, told=()):
    text = shown(view, width)
    assert max(map(len, text.splitlines())) <= width, text
    assert "…" not in text, text
    for word in told:
        assert word in text, (word, text)


STATISTICS = CacheStatistics(
    requests=LARGE,
    lookup_tokens=LARGE * 10,
    hit_tokens=LARGE * 9,
    computed_tokens=LARGE,
    evicted_tokens=LARGE,
    evicted_snapshots=LARGE,
    resident_tokens=LARGE,
    resident_snapshots=LARGE,
    misses={"branched_before_snapshot": LARGE, "cold": 1},
    budget_bytes=LARGE * 100,
    codec="int8",
    tiers={name: TierStatistics(tokens=LARGE, snapshots=LARGE, hits=LARGE) for name in ("device", "host", "disk")},
    conversations={
        "conversation_of_a_customer": ConversationStatistics(
            requests=LARGE, hit_tokens=LARGE, lookup_tokens=LARGE, misses={"branched_before_snapshot": LARGE}
        )
    },
)
SCHEMA = {
    "type": "object",
    "properties": {
        "category_of_the_message": {"enum": ["billing and refunds", "delivery", "technical", "account"]},
        "customer": {
            "type": "object",
            "properties": {"identification_number": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$"}},
        },
    },
    "required": ["category_of_the_message"],
}
EVIDENCE = [
    Evidence(
        pointer="/customer/identification_number",
        value="AB-1042 and a long text that a model wrote",
        how="generated",
    ),
    Evidence(
        pointer="/category_of_the_message",
        value="billing and refunds",
        how="scored",
        probability=0.91,
        raw_probability=0.95,
        legal_mass=0.99,
        alternatives=(Alternative(value="technical", probability=0.07), Alternative(value="account", probability=0.01)),
    ),
]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_cache_of_a_running_engine(width):
    told = ["branched_before_snapshot", "123,456,789", "conversation_of_a_customer", "tokens", "fetched"]
    check(lambda console: show_statistics(STATISTICS, console), width, told)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_cache_as_it_is_watched(width):
    history = HitRateHistory()
    history.add(STATISTICS)
    check(statistics_view(STATISTICS, history, title="http://localhost:8000"), width, ["123,456,789", "evicted"])


@pytest.mark.parametrize("width", WIDTHS)
def test_a_folder_of_entries(width, tmp_path):
    folder = tmp_path / ("long_name_" * 3)
    folder.mkdir()
    check(folder_view(folder), max(width, len(str(folder))), ["entries", "tokens", "MB"])


@pytest.mark.parametrize("width", WIDTHS)
def test_a_plan(width):
    told = ["/category_of_the_message", "/customer/identification_number", "billing", "refunds"]
    check(lambda console: show_plan(console, load(SCHEMA, name="message")), width, told)


@pytest.mark.parametrize("width", WIDTHS)
def test_how_arguments_were_decided(width):
    check(evidence_table(EVIDENCE), width, ["/customer/identification_number", "0.910", "0.950", "0.990", "account"])


@pytest.mark.parametrize("width", WIDTHS)
def test_what_a_demonstration_cost(width):
    usage = Usage(prompt_tokens=LARGE, computed_tokens=LARGE, completion_tokens=LARGE, reasoning_tokens=LARGE)
    text = shown(cost_table([Cost(message="A short one", usage=usage, seconds=1234.5)], load_s=1.0, width=width), width)
    assert "123,456,789" in text
    assert "1234.50" in text
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_trials_of_a_tuning(width):
    best = Scoring()
    trials = (Trial(scoring=best, accuracy=0.75),)
    check(_trials(Tuned(scoring=best, trials=trials, held_out=0.7, held_out_default=0.6)), width, ["lead-in", "best:"])


HORIZONS = Horizons(
    layers={at: LayerHorizons(kind="gdn", num_heads=2, tokens=(float(LARGE), math.inf)) for at in range(3)}, digest="x"
)
GEOMETRY = {
    at: LayerGeometry(num_heads=2, key_dim=128, value_dim=128, units_per_head=1, input_bytes=4096) for at in range(3)
}


@pytest.mark.parametrize("width", WIDTHS)
def test_the_horizons_of_a_model(width):
    check(_layer_table("a-model-with-a-long-name", HORIZONS), width, ["123,456,789", "never", "quarter"])
    check(_policy_table(HORIZONS, GEOMETRY), width, ["exact", "smaller"])


@pytest.mark.parametrize("width", WIDTHS)
def test_what_a_cache_of_another_size_would_do(width):
    seen = WorkingSet(distances={3: 5, 900: 900}, first_uses=901)
    load = Workload(trace=stream_like(seen, 9), budget_bytes=LARGE**2, token_bytes=LARGE, snapshot_bytes=LARGE)
    check(_room_table(load), width, ["room", "901"])
    ways = _ways(load, {"a codec of a long name": LARGE, "exact": LARGE * 10})
    check(_way_table(ways, LARGE**2), width, ["kv_bits=8", "conversation"])
    check(lambda console: advise(console, load, {"exact": LARGE}), width)


cells = st.text("abc 1,.", min_size=1, max_size=12).map(str.strip).filter(bool)


grids = st.integers(2, 9).flatmap(lambda n: st.lists(st.lists(cells, min_size=n, max_size=n), min_size=2, max_size=4))


@given(grids, st.integers(30, 130))
def test_no_word_of_any_table_is_lost_or_cut(rows, width):
    table = Table(*rows[0], title="title")
    for row in rows[1:]:
        table.add_row(*row)
    text = shown(table, width)
    assert max(map(len, text.splitlines())) <= width
    found = words(text.replace(":", " "))
    for row in rows[1:]:
        for cell in row:
            assert all(word in found for word in words(cell)), (cell, text)


def test_printing_a_table_leaves_it_as_it_was():
    table = Table("one", "two", title="title")
    table.add_row("a" * 30, "b " * 40)
    wide = shown(table, 200)
    assert shown(table, 40) != wide
    assert shown(table, 200) == wide


def test_views_take_the_table_that_fits():
    folders = [ROOT / "agentform" / "cli", ROOT / "benchmarks", ROOT / "studies"]
    sources = [path for folder in folders for path in folder.rglob("*.py")]
    theirs = [path.name for path in sources if re.search(r"from rich(\.table import| import table)", path.read_text())]
    assert theirs == ["tables.py"]
