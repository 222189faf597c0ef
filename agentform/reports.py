"""What the command line shows of schemas and caches, for a `rich.console.Console` of your own."""

from agentform.cli.cache_stats import show_statistics
from agentform.cli.plan import show_hints, show_plan
from agentform.cli.safe_text import visible_text
from agentform.cli.tune import probe_target, read_texts

__all__ = ["probe_target", "read_texts", "show_hints", "show_plan", "show_statistics", "visible_text"]
