"""The page that shows turns: what it is made of, what it asks for, and what a browser makes of it."""

from __future__ import annotations

import re
import shutil
from importlib.resources import files
from typing import Literal

import httpx
import pytest

from agentform import Toolbox, tool
from agentform.serve import ServerSettings, Service
from agentform.serve.page_endpoint import PAGE_FILES
from agentform.testing import Call, Say, ScriptedEngine
from tests.support.servers import running

KEY = "a-key-of-some-length"
HOSTILE = "<img src=x onerror=\"document.title='gone'\"><script>document.title='gone'</script>\u202e"
PAGE = {name: files("agentform.serve").joinpath("page", name).read_text("utf-8") for name, _ in PAGE_FILES.values()}


@tool
def light(room: Literal["kitchen", "office"], note: str) -> str:
    """Switch on the light in a room."""
    if note == "broken":
        raise ValueError("the bulb is broken")
    return f"On. {HOSTILE}"


PLAYED = Toolbox.from_mcp_schema([{"name": "look_up", "inputSchema": {"type": "object", "properties": {}}}])
TOOLS = Toolbox([light, *PLAYED.values()])


def client(**settings) -> httpx.AsyncClient:
    service = Service(
        engine=ScriptedEngine([]), tools=TOOLS, instructions="Be brief.", settings=ServerSettings(**settings)
    )
    return httpx.AsyncClient(transport=httpx.ASGITransport(service.app), base_url="http://localhost")


@pytest.mark.anyio
async def test_the_files_are_open_and_may_load_and_run_nothing_from_elsewhere():
    async with client(page=True, api_keys=(KEY,)) as there:
        for path in PAGE_FILES:
            reply = await there.get(path)
            assert reply.status_code == 200
            policy = dict(part.strip().split(" ", 1) for part in reply.headers["content-security-policy"].split(";"))
            assert policy["default-src"] == "'none'"
            assert policy["script-src"] == policy["connect-src"] == policy["style-src"] == "'self'"
            assert reply.headers["x-content-type-options"] == "nosniff"
        assert (await there.get("/page/tools")).status_code == 401
        assert "page" in (await there.get("/", headers={"authorization": f"Bearer {KEY}"})).text
    async with client() as there:
        assert {(await there.get(path)).status_code for path in (*PAGE_FILES, "/page/tools")} == {404}


@pytest.mark.anyio
async def test_tools_are_listed_and_those_that_can_be_are_run():
    async with client(page=True) as there:
        listed = (await there.get("/page/tools")).json()
        assert [each["function"]["name"] for each in listed["tools"]] == ["light", "look_up"]
        assert (listed["runs"], listed["instructions"]) == (["light"], "Be brief.")

        async def call(name, **arguments):
            return await there.post("/page/call", json={"name": name, "arguments": arguments})

        assert (await call("light", room="office", note="")).json() == {"content": f"On. {HOSTILE}", "is_error": False}
        failed = (await call("light", room="office", note="broken")).json()
        assert failed == {"content": "Error: ValueError: the bulb is broken", "is_error": True}
        assert (await call("light", room="cellar", note="")).json()["is_error"]
        for name in ("look_up", "gone"):
            assert (await call(name)).status_code == 400
        simple = {"content-type": "text/plain"}  # what another site's page may send without being asked
        assert (await there.post("/page/call", content='{"name": "light"}', headers=simple)).status_code == 415


def test_text_becomes_no_markup_and_every_field_has_a_label():
    script = PAGE["page.js"] + PAGE["parts.js"]
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "localStorage", "cookie ="):
        assert way not in script
    for text in PAGE.values():
        assert "://" not in text
    page = PAGE["page.html"]
    ids = re.findall(r'\bid="([\w-]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'byId\("([\w-]+)"\)', script)) <= set(ids)
    fields = re.findall(r'<(?:input|textarea|select)[^>]*id="([\w-]+)"', page)
    assert fields
    assert set(fields) == set(re.findall(r'<label for="([\w-]+)"', page))
    assert not re.search(r"<script>|\son\w+=|\sstyle=", page)


def test_a_browser_shows_a_turn_as_it_is_and_nothing_of_it_as_markup(monkeypatch):
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra browser)")
    found = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("needs Chromium")
    script = [Call("light", {"room": "office", "note": HOSTILE}, text=f"It is dark. {HOSTILE}"), Call("look_up", {})]
    engine = ScriptedEngine([*script, Say(f"It is on. {HOSTILE}")])
    monkeypatch.setattr("tests.support.servers.Service", lambda **given: Service(**given, tools=TOOLS))
    with running(engine, page=True, api_keys=(KEY,)) as server, sync_api.sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(60_000)
        asked, faults = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{server.url}/page")
        page.get_by_label("API key").fill(KEY)
        page.keyboard.press("Enter")
        page.get_by_role("status").get_by_text("Ready.").wait_for()
        page.keyboard.type("It is dark.")  # the message has the focus
        page.keyboard.press("Enter")
        page.get_by_label("What does look_up return?").wait_for()
        page.keyboard.type("In Rome.")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.get_by_role("status").get_by_text("Answered.").wait_for()
        said = page.get_by_role("log").inner_text()
        for word in ("Decides to call light", "/room", '"office"', "90.0 %", "Legal mass", "Before the prior"):
            assert word in said
        for word in ("from the cache", "light returned", "In Rome.", "It is on.", "Decides to answer", "\\u202e"):
            assert word in said
        assert said.count(HOSTILE.replace("\u202e", "\\u202e")) == 3  # said, returned and answered, as they are
        assert page.get_by_role("log").locator("img, script").count() == 0
        assert page.title() == "agentform"
        bars = page.get_by_label("Call of light").get_by_role("meter", name="office")
        assert bars.count() == 1
        assert page.locator("#prompt:focus").count() == 1
        assert (faults, {url for url in asked if not url.startswith(server.url)}) == ([], set())
        assert KEY not in page.url
        browser.close()
