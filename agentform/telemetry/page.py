"""Hit rate over time as one HTML page that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from agentform.telemetry.charts import lines, stacked_bars
from agentform.telemetry.history import HitRateSample, Share

__all__ = ["hit_rate_page"]

_DRAWN_CONVERSATIONS = 8
_STYLE = """
:root { color-scheme: light dark; --grid: #8884; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin: 2rem 0 .25rem; font-size: 1.1rem; }
svg { width: 100%; height: auto; }
.line { fill: none; stroke: var(--c); stroke-width: 2; }
.dot, .bar { fill: var(--c); }
.grid { stroke: var(--grid); }
.tick { fill: currentColor; font-size: 12px; opacity: .7; }
.keys { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: 0; font-size: .85rem; }
.swatch { display: inline-block; width: .8em; height: .8em; margin-right: .35em; background: var(--c); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--grid); }
.s0 { --c: #3b7dd8; } .s1 { --c: #d9822b; } .s2 { --c: #3a9d5d; } .s3 { --c: #b5469b; }
.s4 { --c: #8a6d3b; } .s5 { --c: #c0392b; } .s6 { --c: #5f6caf; } .s7 { --c: #7f8c8d; }
"""


def hit_rate_page(samples: Sequence[HitRateSample], *, title: str = "Cache hit rate") -> str:
    """The page: hit rate, tokens and miss reasons over time, and the conversations where their samples hold them."""
    total = sum((sample.total for sample in samples), Share())
    times = [sample.at_s for sample in samples]
    rates = [sample.total.hit_rate for sample in samples]
    sofar = [share.hit_rate for share in _sums(sample.total for sample in samples)]
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{_summary(total, times)}</p>",
        "<h2>Prompt tokens found in the cache</h2>",
        lines(times, {"since the sample before": rates, "since the first": sofar}),
        "<h2>Prompt tokens per sample</h2>",
        stacked_bars(times, {"reused": _hits(samples), "not in the cache": _misses(samples)}),
        "<h2>Requests that were not fully cached, by reason</h2>",
        _reasons(times, samples, total),
        *_conversations(times, samples),
    ]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _summary(total: Share, times: Sequence[float]) -> str:
    rate = "no request yet" if total.hit_rate is None else f"{total.hit_rate:.1%}"
    span = f" in {times[-1] - times[0]:,.0f} s" if len(times) > 1 else ""
    return (
        f"<strong>{rate}</strong>: {total.hit_tokens:,} of {total.lookup_tokens:,} prompt tokens reused, "
        f"{total.requests:,} requests{span}, {len(times):,} samples."
    )


def _hits(samples: Sequence[HitRateSample]) -> list[int]:
    return [sample.total.hit_tokens for sample in samples]


def _misses(samples: Sequence[HitRateSample]) -> list[int]:
    return [sample.total.lookup_tokens - sample.total.hit_tokens for sample in samples]


def _reasons(times: Sequence[float], samples: Sequence[HitRateSample], total: Share) -> str:
    if not total.misses:
        return "<p>None.</p>"
    order = sorted(total.misses, key=lambda reason: -total.misses[reason])
    return stacked_bars(times, {reason: [s.total.misses.get(reason, 0) for s in samples] for reason in order})


def _conversations(times: Sequence[float], samples: Sequence[HitRateSample]) -> list[str]:
    totals: dict[str, Share] = {}
    for sample in samples:
        for name, share in sample.conversations.items():
            totals[name] = totals.get(name, Share()) + share
    if not totals:
        return []
    order = sorted(totals, key=lambda name: -totals[name].lookup_tokens)
    drawn = {name: _rates(samples, name) for name in order[:_DRAWN_CONVERSATIONS]}
    more = f", the {len(drawn)} largest of {len(order)}" if len(order) > len(drawn) else ""
    rows = "".join(_row(name, totals[name]) for name in order)
    head = "<tr><th>conversation<th>requests<th>prompt tokens<th>reused<th>misses</tr>"
    return [f"<h2>By conversation{more}</h2>", lines(times, drawn), f"<table>{head}{rows}</table>"]


def _rates(samples: Sequence[HitRateSample], name: str) -> list[float | None]:
    """The conversation's rate up to each sample in which it asked something."""
    shares = [sample.conversations.get(name, Share()) for sample in samples]
    return [upto.hit_rate if share.requests else None for share, upto in zip(shares, _sums(shares), strict=True)]


def _sums(shares: Iterable[Share]) -> list[Share]:
    found: list[Share] = []
    for share in shares:
        found.append(found[-1] + share if found else share)
    return found


def _row(name: str, share: Share) -> str:
    rate = "" if share.hit_rate is None else f"{share.hit_rate:.1%}"
    return (
        f"<tr><td>{escape(name)}<td>{share.requests:,}<td>{share.lookup_tokens:,}<td>{rate}"
        f"<td>{escape(_listed(share.misses))}</tr>"
    )


def _listed(misses: Mapping[str, int]) -> str:
    return ", ".join(f"{reason}: {num}" for reason, num in misses.items())
