"""Schemas in, only valid values out: public schemas, the official test suite and function-calling data."""

from __future__ import annotations

from benchmarks.common.harness import Context
from benchmarks.schemas.cases import SEED

__all__ = ["run"]


def run(context: Context) -> None:
    """Measure and report; with `--data`, the test suite and the function-calling data too."""
    from benchmarks.schemas import collection, functions, suite

    figures = {"collection": collection.run_collection(context)}
    collection.show(context, figures["collection"])
    if context.data is not None:
        figures["test_suite"] = suite.run_suite(context)
        suite.show(context, figures["test_suite"])
        figures["functions"] = functions.run_functions(context)
        functions.show(context, figures["functions"])
        context.write(figures, seeds=[SEED])
