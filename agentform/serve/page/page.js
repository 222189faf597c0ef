// Shows turns as they happen, from the stream of /v1/chat/completions with `agentform: {evidence: true}`.
// Whatever a model, a tool or a user says becomes a text node: nothing is ever parsed as markup.

import { answerOf, callBox, errorText, events, leafBox, make, oddsTable, turnFacts, visible } from "./parts.js";

const byId = (id) => document.getElementById(id);
const [log, status, prompt, send, stop] = ["log", "status", "prompt", "send", "stop"].map(byId);

let key = "";          // in this variable alone: not in storage, a cookie or the address
let model = "";
let runs = new Set();  // tools that the server runs; what the others return, the user says
let messages = [];
let running = null;    // what ends the turn that is going on
let asked = 0;         // numbers the fields for results

if (location.hash.startsWith("#key=")) {
  key = decodeURIComponent(location.hash.slice(5));
  history.replaceState(null, "", location.pathname);
}

function say(text, bad = false) {
  status.textContent = visible(text);
  status.classList.toggle("bad", bad);
}

async function ask(path, body, signal) {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  if (body !== undefined) headers["content-type"] = "application/json";
  const reply = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, signal, credentials: "omit",
    body: body === undefined ? undefined : JSON.stringify(body) });
  if (reply.status === 401) {
    byId("key-form").hidden = false;
    byId("key").focus();
    throw new Error("The server asks for an API key.");
  }
  if (!reply.ok) throw new Error(errorText(await reply.text(), reply.status));
  return reply;
}

async function begin() {
  try {
    model = (await (await ask("v1/models")).json()).data[0].id;
    const given = await (await ask("page/tools")).json();
    runs = new Set(given.runs);
    byId("model").textContent = visible(model);
    if (!byId("system").value) byId("system").value = given.instructions;
    if (given.tools.length && !byId("tools").value) byId("tools").value = JSON.stringify(given.tools, null, 1);
    byId("key-form").hidden = true;
    say("Ready.");
    prompt.focus();
  } catch (error) {
    say(error.message, true);
  }
}

function request() {
  const tools = byId("tools").value.trim() ? JSON.parse(byId("tools").value) : [];
  const system = byId("system").value.trim();
  const body = { model, stream: true, stream_options: { include_usage: true }, agentform: { evidence: true },
    reasoning_format: "none", messages: system ? [{ role: "system", content: system }, ...messages] : messages };
  if (tools.length) body.tools = tools;
  if (byId("effort").value) body.reasoning_effort = byId("effort").value;
  if (Number(byId("temperature").value)) body.temperature = Number(byId("temperature").value);
  if (byId("max-tokens").value) body.max_tokens = Number(byId("max-tokens").value);
  return body;
}

// One turn, drawn as its chunks come; returns the assistant's message.
async function turn(signal) {
  const body = request();
  const card = make("article", { "aria-label": "Turn" }, make("h2", {}, "Turn"));
  const thought = make("p", { class: "text thought", hidden: "" });
  const text = make("p", { class: "text running" });
  const decision = make("div");
  const calls = make("div");
  const facts = make("div");
  card.append(thought, text, decision, calls, facts);
  log.append(card);
  const leaves = new Map();  // by call and place: what was drawn of an argument so far
  const message = answerOf();

  function place(callId, tool) {
    const found = [...calls.children].find((box) => box.dataset.call === callId);
    if (found) return found;
    const box = callBox(callId, tool);
    calls.append(box);
    return box;
  }
  function leaf(callId, tool, evidence, written) {
    const at = `${callId} ${evidence.pointer}`;
    const drawn = leafBox(evidence, written);
    if (leaves.has(at)) leaves.get(at).replaceWith(drawn);
    else place(callId, tool).append(drawn);
    leaves.set(at, drawn);
  }
  function decided(evidence) {
    const calling = evidence.value !== null;
    text.classList.toggle("before-call", calling);
    decision.append(make("h3", {}, calling ? `Decides to call ${visible(evidence.value)}` : "Decides to answer"),
      oddsTable(evidence, (value) => value === null ? "answer" : String(value)));
  }
  function told(extension) {
    if (extension.decision) decided(extension.decision);
    if (extension.argument) leaf(extension.argument.call_id, extension.argument.tool, extension.argument.evidence);
    if (extension.written) {
      const { call_id: id, tool, pointer, attempt, text: piece } = extension.written;
      const at = `${id} ${pointer}`;
      const before = leaves.get(at)?.dataset.attempt === String(attempt) ? leaves.get(at).dataset.written : "";
      leaf(id, tool, { pointer, how: "generated", alternatives: [] }, { text: before + piece, attempt });
    }
  }
  function whole(extension) {  // what holds in the end, in the place of what was told on the way
    for (const call of extension.calls)
      for (const evidence of call.arguments) leaf(call.id, call.name, evidence);
    for (const evidence of extension.output) leaf("answer", "", evidence);
    message.extension = extension;
  }

  try {
    for await (const chunk of events(await ask("v1/chat/completions", body, signal))) {
      if (chunk.error) throw new Error(chunk.error.message);
      if (chunk.agentform) told(chunk.agentform);
      if (chunk.usage) message.usage = chunk.usage;
      const delta = chunk.choices[0]?.delta;
      if (!delta) continue;
      if (delta.agentform) whole(delta.agentform);
      message.add(delta, chunk.choices[0].finish_reason);
      thought.textContent = visible(message.reasoning_content);
      thought.hidden = !message.reasoning_content;
      text.textContent = visible(message.content);
    }
  } catch (error) {
    card.append(make("p", { class: "bad" }, visible(error.name === "AbortError" ? "Stopped." : error.message)));
    throw error;
  } finally {
    text.classList.remove("running");
  }
  facts.append(turnFacts(message));
  return { card, message };
}

function resultForm(call) {
  asked += 1;
  const field = make("textarea", { id: `result-${asked}`, rows: "2" });
  const form = make("form", {}, make("label", { for: field.id }, `What does ${visible(call.function.name)} return?`),
    field, make("button", {}, "Give the result"));
  return { form, said: new Promise((resolve) => form.addEventListener("submit", (event) => {
    event.preventDefault();
    resolve(field.value);
  })), field };
}

async function resultOf(card, call, signal) {
  if (runs.has(call.function.name)) {
    const body = { name: call.function.name, arguments: JSON.parse(call.function.arguments) };
    return (await (await ask("page/call", body, signal)).json()).content;
  }
  const { form, said, field } = resultForm(call);
  card.append(form);
  say(`Say what ${call.function.name} returns.`);
  log.removeAttribute("aria-busy");
  field.focus();
  const stopped = new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("Stopped."))));
  try { return await Promise.race([said, stopped]); } finally { form.remove(); }
}

async function talk(text) {
  const kept = messages.length;
  running = new AbortController();
  [send.disabled, stop.disabled, byId("reset").disabled] = [true, false, true];
  messages.push({ role: "user", content: text });
  log.append(make("article", { "aria-label": "You" }, make("h2", {}, "You"), make("p", { class: "text" }, visible(text))));
  try {
    for (let step = 0; step < 16; step += 1) {
      say("The model is at it …");
      log.setAttribute("aria-busy", "true");  // a reader is told of a turn when it is whole, not piece by piece
      const { card, message } = await turn(running.signal);
      log.removeAttribute("aria-busy");
      messages.push(message.sent());
      if (!message.tool_calls.length) {
        say(message.finish === "length" ? "The answer was cut off at its limit." : "Answered.");
        return;
      }
      for (const call of message.tool_calls) {
        const content = await resultOf(card, call, running.signal);
        messages.push({ role: "tool", tool_call_id: call.id, content });
        card.append(make("h3", {}, `${visible(call.function.name)} returned`), make("p", { class: "text" }, visible(content)));
      }
    }
    say("Ended after 16 turns without an answer.", true);
  } catch (error) {
    messages.length = kept;  // an unfinished exchange is not part of the conversation
    say(error.name === "AbortError" ? "Stopped." : error.message, true);
  } finally {
    log.removeAttribute("aria-busy");
    [send.disabled, stop.disabled, byId("reset").disabled] = [false, true, false];
    running = null;
    prompt.focus();
  }
}

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = byId("key").value.trim();
  byId("key").value = "";
  begin();
});
byId("talk").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = prompt.value.trim();
  if (!text || running) return;
  try { request(); } catch (error) {
    byId("settings").open = true;
    say(`The tools are no JSON: ${error.message}`, true);
    byId("tools").focus();
    return;
  }
  prompt.value = "";
  talk(text);
});
prompt.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    byId("talk").requestSubmit();
  }
});
stop.addEventListener("click", () => running?.abort());
byId("reset").addEventListener("click", () => {
  messages = [];
  log.replaceChildren();
  say("Forgotten.");
  prompt.focus();
});
begin();
