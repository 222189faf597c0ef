"""Tools: functions that a model may call, and boxes of them."""

from agentform.tools.policy import OnToolError, ToolPolicy
from agentform.tools.tool import Tool, tool
from agentform.tools.toolset import Toolbox

__all__ = ["OnToolError", "Tool", "ToolPolicy", "Toolbox", "tool"]
