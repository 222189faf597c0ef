"""What runs inside SGLang's own processes."""

from agentform.runtime.sglang.plugin.plugin import register

__all__ = ["register"]
