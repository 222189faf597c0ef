"""Decision models behind a URL or from other libraries, made ready to decide beside a chat model."""

from agentform.deciders.load import load_decider

__all__ = ["load_decider"]
