"""Draws the pictures of this folder: `python docs/images/make.py`, with playwright and Chromium for the page's.

The engine follows a script, so that they come out alike.
"""

from __future__ import annotations

import re
import shutil
import socket
import threading
from pathlib import Path
from typing import Literal

import anyio
from rich.console import Console

from agentform import Agent, Toolbox, tool
from agentform.cli.chat.view import TurnView
from agentform.serve import Server, ServerSettings, Service
from agentform.testing import Call, Say, ScriptedEngine

HERE = Path(__file__).parent


@tool
def set_light(room: Literal["kitchen", "bedroom", "office"], on: bool, note: str) -> str:
    """Switch the light in a room."""
    return f"The light in the {room} is {'on' if on else 'off'}."


def engine() -> ScriptedEngine:
    arguments = {"room": "office", "on": True, "note": "asked for by the user"}
    return ScriptedEngine([Call("set_light", arguments, text="It is dark there, so I switch it on."), Say("It is on.")])


def draw_terminal() -> None:
    console = Console(width=80, record=True, force_terminal=False)

    async def chat() -> None:
        agent = Agent(engine(), tools=[set_light])
        console.print("> I cannot see in the office.", style="bold")
        with TurnView(console) as view:
            async with agent.stream("I cannot see in the office.") as run:
                async for event in run:
                    view.show(event)

    anyio.run(chat)
    picture = console.export_svg(title="agentform chat")
    # Without the fonts, which a browser would fetch from elsewhere.
    (HERE / "chat.svg").write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL), encoding="utf-8")


def draw_page() -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    service = Service(engine=engine(), settings=ServerSettings(page=True), tools=Toolbox([set_light]))
    server = Server(service)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            with sync_playwright() as browsers:
                browser = browsers.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                page = browser.new_page(viewport={"width": 720, "height": 900})
                page.goto(f"http://127.0.0.1:{listener.getsockname()[1]}/page")
                page.get_by_role("status").get_by_text("Ready.").wait_for()
                page.keyboard.type("I cannot see in the office.")
                page.keyboard.press("Enter")
                page.get_by_role("status").get_by_text("Answered.").wait_for()
                page.screenshot(path=str(HERE / "page.png"), full_page=True)
                Image.open(HERE / "page.png").quantize(32).save(HERE / "page.png", optimize=True)
                browser.close()
        finally:
            server.stop()
            thread.join()


if __name__ == "__main__":
    draw_terminal()
    draw_page()
