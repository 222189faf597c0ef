"""Tools: functions that a model may call, and boxes of them."""

from agentform.tools.policy import OnToolError, ToolPolicy
from agentform.tools.tool import Tool, tool
from agentform.tools.toolset import LeftOut, Toolbox

__all__ = ["LeftOut", "OnToolError", "Tool", "ToolPolicy", "Toolbox", "tool"]
