"""Two forms over public sets: a topic with a flag that follows from it, an intent with the domain it belongs to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from agentform.messages import JsonValue
from benchmarks.common.datasets import load_items, sampled
from benchmarks.common.harness import Context
from benchmarks.common.items import Item
from benchmarks.couplings.collection import SEED, CoupledForm

__all__ = ["PUBLIC", "public_forms"]

PUBLIC = ("topic_flag", "intent_domain")
"""The names of these forms."""
_MOST = 64


def public_forms(context: Context) -> Iterator[CoupledForm]:
    """`topic_flag` and `intent_domain`, the two of the contradictions study; their texts are the sets' own.

    Raises:
        InvalidInput: the data folder does not hold the set.
    """
    news = sampled(load_items(context, "ag_news"), _MOST, SEED)
    flag = ("Whether the news item is about sports", (True, False))
    yield _over(news, PUBLIC[0], "is_sports", *flag)
    domains: dict[str, list[str]] = json.loads(context.need("forms", "clinc150", "domains.json").read_text())
    said = sampled(load_items(context, "clinc150"), _MOST, SEED)
    yield _over(said, PUBLIC[1], "domain", "The area that the intent belongs to", tuple(domains))


def _over(
    items: Sequence[Item], name: str, added: str, description: str, options: tuple[JsonValue, ...]
) -> CoupledForm:
    [own] = items[0].fields
    return CoupledForm(
        name=name,
        about="",
        options={own.name: own.options, added: options},
        described={own.name: own.description, added: description},
        derived={},
        coupled=frozenset([frozenset((own.name, added))]),
        texts=tuple(item.messages[-1].content for item in items),
        verbatim=True,
    )
