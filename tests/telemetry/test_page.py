"""The page is well-formed, needs nothing from elsewhere, and shows what the samples hold."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from agentform.runtime.cache.statistics import CacheStatistics, ConversationStatistics
from agentform.telemetry import HitRateHistory, hit_rate_page
from agentform.telemetry.charts import stacked_bars


def history(num_samples: int, name: str = "anna") -> HitRateHistory:
    made = HitRateHistory()
    for n in range(1, num_samples + 1):
        one = ConversationStatistics(requests=n, lookup_tokens=100 * n, hit_tokens=75 * n, misses={"cold": 1, "new": n})
        made.add(
            CacheStatistics(
                requests=n, lookup_tokens=100 * n, hit_tokens=75 * n, misses=one.misses, conversations={name: one}
            ),
            at_s=1000.0 + n,
        )
    return made


def drawings(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def test_rates_tokens_reasons_and_conversations_are_drawn():
    page = hit_rate_page(history(5).samples)
    rates, tokens, reasons, conversations = drawings(page)
    assert len(rates.findall("circle")) == 2 * 5
    assert len(tokens.findall("rect")) == 2 * 5
    assert len(reasons.findall("rect")) == 5 + 1
    assert len(conversations.findall("circle")) == 5
    assert "75.0%" in page
    assert "375 of 500 prompt tokens reused" in page


def test_small_counts_have_whole_ticks_that_differ():
    for most, ticks in ((1, ["0", "1"]), (2, ["0", "1", "2"]), (5, ["0", "2", "5"])):
        drawn = stacked_bars([0.0, 1.0], {"cold": [most, 0]})
        assert re.findall(r'text-anchor="end">([^<]*)<', drawn) == ticks


def test_a_higher_rate_is_drawn_higher():
    made = HitRateHistory()
    made.add(CacheStatistics(requests=1, lookup_tokens=100, hit_tokens=10), at_s=0)
    made.add(CacheStatistics(requests=2, lookup_tokens=200, hit_tokens=100), at_s=1)
    dots = drawings(hit_rate_page(made.samples))[0].findall("circle[@class='dot s0']")
    (low, high), (left, right) = ([float(d.get(key)) for d in dots] for key in ("cy", "cx"))
    assert high < low
    assert left < right


def test_names_of_conversations_cannot_write_the_page():
    page = hit_rate_page(history(2, name="<script>alert(1)</script>").samples, title="<b>")
    assert "<script" not in page
    assert "<b>" not in page
    assert drawings(page)


@pytest.mark.parametrize("num_samples", [0, 1])
def test_few_samples_are_a_page_too(num_samples):
    assert "</html>" in hit_rate_page(history(num_samples).samples)


def test_nothing_is_loaded_from_elsewhere():
    assert not re.search(r"https?://|<script|<link|@import|url\(", hit_rate_page(history(3).samples))
