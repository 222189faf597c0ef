// What the page is made of: elements from data, and chunks from a stream. All text becomes text nodes.

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// What changes the direction of writing or is not seen, as its number: no text may look like another.
export function visible(text) {
  return String(text ?? "").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

const json = (value) => visible(JSON.stringify(value));
const percent = (number) => `${(100 * number).toFixed(1)} %`;

export function errorText(body, code) {
  try { return JSON.parse(body).error.message; } catch { return `The server answered with ${code}.`; }
}

function bar(name, number) {
  const meter = make("meter", { min: "0", max: "1", value: String(number), "aria-label": visible(name) });
  meter.textContent = percent(number);
  return meter;
}

// The options of a choice with their probabilities, the chosen one first.
export function oddsTable(evidence, name = json) {
  const box = make("div");
  if (evidence.probability !== null && evidence.probability !== undefined) {
    const options = [{ value: evidence.value, probability: evidence.probability }, ...evidence.alternatives];
    const table = make("table", { class: "odds" }, make("caption", { class: "hint" }, "Probability among the legal options"));
    options.forEach((option, at) => table.append(make("tr", at ? {} : { class: "chosen" },
      make("th", { scope: "row" }, visible(name(option.value)), at ? "" : " ✓"),
      make("td", {}, bar(name(option.value), option.probability)),
      make("td", { class: "number" }, percent(option.probability)))));
    box.append(table);
  }
  box.append(evidenceFacts(evidence));
  return box;
}

function evidenceFacts(evidence) {
  const facts = [];
  const known = (number) => number !== null && number !== undefined;
  if (known(evidence.legal_mass)) facts.push(["Legal mass", percent(evidence.legal_mass), "of the model's full probability is on the legal options"]);
  if (known(evidence.raw_probability)) facts.push(["Before the prior", percent(evidence.raw_probability), "as the model said it, before its leaning was taken out"]);
  if (known(evidence.gap)) facts.push(["Given up", evidence.gap.toFixed(3), "log probability, so that all arguments fit together"]);
  if (evidence.by) facts.push(["Decided by", visible(evidence.by), ""]);
  if (evidence.shortened) facts.push(["Shortened", "to a whole word", "at the longest that the schema allows"]);
  return factList(facts);
}

function factList(facts) {
  const list = make("dl", { class: "facts" });
  for (const [name, value, why] of facts) list.append(make("dt", {}, name), make("dd", {}, why ? `${value} ${why}` : value));
  return list;
}

export function callBox(id, tool) {
  const box = make("section", { "aria-label": tool ? `Call of ${visible(tool)}` : "Answer" },
    make("h3", {}, tool ? `Arguments of ${visible(tool)}` : "Form"));
  box.dataset.call = id;
  return box;
}

// One argument: its place, its value, and how it came. `written` is JSON text that is still being written.
export function leafBox(evidence, written = null) {
  const value = written ? visible(written.text) : json(evidence.value);
  const box = make("div", { class: "leaf" }, make("p", {}, make("code", {}, visible(evidence.pointer || "(whole)")), " = ",
    make("span", { class: written ? "value running" : "value" }, value), " ", make("span", { class: "how" }, visible(evidence.how))));
  if (written) [box.dataset.written, box.dataset.attempt] = [written.text, String(written.attempt)];
  else box.append(oddsTable(evidence));
  return box;
}

// What a turn cost, what of its prompt came from the cache, and why not the rest.
export function turnFacts(message) {
  const usage = message.usage ?? {};
  const cache = message.extension?.usage ?? {};
  const facts = [];
  const cached = cache.cached_tokens ?? usage.prompt_tokens_details?.cached_tokens;
  if (usage.prompt_tokens !== undefined) facts.push(["Prompt", `${usage.prompt_tokens} tokens, ${cached ?? "an unknown number"} from the cache`, ""]);
  if (cache.miss) facts.push(["Not cached", visible(cache.miss).replaceAll("_", " "), ""]);
  if (cache.computed_tokens !== null && cache.computed_tokens !== undefined) facts.push(["Computed", `${cache.computed_tokens} tokens`, ""]);
  if (usage.completion_tokens !== undefined) facts.push(["Written", `${usage.completion_tokens} tokens`, ""]);
  return factList(facts);
}

// An assistant's message as its deltas add up.
export function answerOf() {
  return {
    content: "", reasoning_content: "", tool_calls: [], finish: null, usage: null, extension: null,
    add(delta, finish) {
      this.content += delta.content ?? "";
      this.reasoning_content += delta.reasoning_content ?? "";
      this.finish = finish ?? this.finish;
      for (const piece of delta.tool_calls ?? []) {
        const call = this.tool_calls[piece.index] ??= { id: piece.id, type: "function", function: { name: "", arguments: "" } };
        call.function.name += piece.function.name ?? "";
        call.function.arguments += piece.function.arguments ?? "";
      }
    },
    sent() {
      const message = { role: "assistant", content: this.content };
      if (this.reasoning_content) message.reasoning_content = this.reasoning_content;
      if (this.tool_calls.length) message.tool_calls = this.tool_calls;
      return message;
    },
  };
}

// The events of a stream, parsed; the last one is not told.
export async function* events(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    waiting += value ?? "";
    let end;
    while ((end = waiting.indexOf("\n\n")) >= 0) {
      const line = waiting.slice(0, end).split("\n").find((each) => each.startsWith("data: "));
      waiting = waiting.slice(end + 2);
      if (line && line !== "data: [DONE]") yield JSON.parse(line.slice(6));
    }
    if (done) return;
  }
}
