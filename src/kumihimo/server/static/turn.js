// the JSON of an answer -> one turn of a conversation, as templates/turn.html makes it on the server
import { countOf, figure, icon, make, prefix, T, textLanguage, withCode } from "./lib.js";
import { render, writeCite } from "./markdown.js";
import { markedPieces, plainText } from "./plain_text.js";

const MAX_PLACES = 3; // of one source, before the rest folds

export const passageAddress = (span) => {
  const place = new URLSearchParams({ start: span.start, end: span.end });
  return `${prefix}/documents/${span.document}?${place}#passage`;
};

const translatePlace = (place) => {
  const [, kind, number] = place.match(/^(p\.|line|slide|sheet) (.*)$/) || [];
  if (kind === "p.") return T("p. {0}", number);
  if (kind === "line") return T("line {0}", number);
  if (kind === "slide") return T("slide {0}", number);
  return kind === "sheet" ? T("sheet {0}", number) : place;
};
export const placeOf = (span) => [span.uri, span.place && translatePlace(span.place)].filter(Boolean).join(", ");

export const passageLink = (span, ...inside) => make("a", {
  href: passageAddress(span), "data-passage": "", "data-title": span.title || span.uri, "data-place": placeOf(span),
}, ...(inside.length ? inside : [span.title || span.uri]));

const group = (citations) => {
  const found = new Map();
  for (const citation of citations) found.set(citation.n, [...(found.get(citation.n) || []), citation]);
  return found;
};

const citeMaker = (cites) => (n) => {
  const span = cites.get(n)?.[0];
  if (!span) return null;
  const link = passageLink(span, String(n));
  link.className = "cite";
  link.setAttribute("aria-label", T("Source {0}: {1}", n, [span.title || span.uri, span.place && translatePlace(span.place)].filter(Boolean).join(", ")));
  return link;
};

// The text with `write` of each marker's numbers; positions count characters, not the code units of JavaScript.
const markedText = (part, write) => {
  const characters = [...part.text], pieces = [];
  let end = 0;
  for (const marker of part.markers) {
    pieces.push(characters.slice(end, marker.start).join(""), marker.start === marker.end ? " " : "", write(marker.n, characters.slice(marker.start, marker.end).join("")));
    end = marker.end;
  }
  return [...pieces, characters.slice(end).join("")].join("");
};

// The text with its marks in bold, but for rows of tables and lines with marks of their own. As Part.emphasized.
const boldText = ({ text, marks }) => {
  const characters = [...text];
  for (const [start, end] of marks) {
    const lines = characters.slice(start, end).join("").split("\n").map((line) => {
      const sign = /^\s*(?:(?:[-*+•]|\d{1,3}[.)])\s+)?/.exec(line)[0], rest = line.slice(sign.length).trimEnd();
      return rest && !/[*_`|]/.test(line) ? `${sign}**${rest}**` : line;
    });
    characters.splice(start, end - start, lines.join("\n"));
  }
  return characters.join("");
};

// A passage is shown below its source, with its copies after it.
const showPart = (part, cites) => {
  if (part.kind !== "passage") return render(markedText(part, writeCite), citeMaker(cites));
  const [n] = part.citations, [span, ...copies] = cites.get(n);
  return make("figure", { className: "excerpt", id: null }, fromLine(span, `[${n}]`, part.headings),
    make("blockquote", { className: "prose", lang: textLanguage(part.text) }, render(boldText(part))), copies.map((copy) => fromLine(copy, "=")));
};

const REMARKS = { closest: T("The nearest passages:"), nothing: T("No passage that answers this was found.") };
const TRUNCATED = T("(The model's reply ends here: it reached the maximum length.)");
// A list of titles, which is closest too, says itself how certain it is.
const remarkOf = ({ status, parts }) => status === "closest" && parts.length && !parts.some(({ kind }) => kind === "passage") ? "" : REMARKS[status] || "";
const showParts = (answer, cites) => [
  remarkOf(answer) ? make("p", {}, remarkOf(answer)) : "",
  ...answer.parts.map((part) => showPart(part, cites)),
  answer.truncated ? make("p", {}, TRUNCATED) : "",
].flat().filter(Boolean);

const fromLine = (span, label = "", headings = []) => make("p", { className: "from" }, label ? [make("span", { className: "figure" }, label), " "] : "", passageLink(span),
  headings.filter((heading) => heading !== span.title).map((heading) => ` › ${heading}`), span.metadata?.date ? ` · ${span.metadata.date.slice(0, 10)}` : "",
  span.title && !span.uri.includes(span.title) ? ` · ${placeOf(span)}` : span.place ? `, ${translatePlace(span.place)}` : "");

const sourceList = (cites) => make("section", { className: "sources" }, make("h3", {}, T("Sources")),
  make("ol", {}, [...cites].sort(([a], [b]) => a - b).map(([n, spans]) =>
    make("li", { className: "source" }, make("span", { className: "n" }, String(n)), make("div", { className: "places" }, byPlace(spans))))));

// Spans of one place stand below its title.
const byPlace = (spans) => {
  const places = new Map();
  for (const span of spans) places.set(placeOf(span), [...(places.get(placeOf(span)) || []), span]);
  const shown = [...places.values()].map(([first, ...others]) => make("div", {}, passageLink(first), " ",
    make("span", { className: "place" }, placeOf(first)),
    [first, ...others].slice(0, MAX_PLACES).map((span) => make("span", { className: "words", lang: textLanguage(span.text) }, plainText(span.text)))));
  if (shown.length <= MAX_PLACES) return shown;
  return [...shown.slice(0, MAX_PLACES), make("details", { className: "fold" }, make("summary", {}, T("{0} more passages", figure.format(shown.length - MAX_PLACES))), shown.slice(MAX_PLACES))];
};

const marked = (text, marks) => markedPieces(text, marks).map(([piece, isMarked]) => (isMarked ? make("mark", {}, piece) : piece));

// Positions count characters, not the code units of JavaScript.
const markedByCharacters = (text, marks) => {
  const characters = [...text];
  if (characters.length === text.length) return marked(text, marks);
  const place = (n) => characters.slice(0, n).join("").length;
  return marked(text, marks.map(([start, end]) => [place(start), place(end)]));
};

export const evidenceList = ({ evidence, rounds = [], status = "" }) => make("details", { className: "fold evidence" },
  make("summary", {}, status === "nothing" ? T("Looked at {0}; none answers", countOf(evidence.length, "passage")) : T("Evidence: {0}", countOf(evidence.length, "passage"))),
  rounds.slice(1).map(({ queries }) => make("p", { className: "reason" }, T("Searched again: {0}", queries.join("; ")))),
  make("ol", {}, evidence.map((item) => make("li", {}, make("div", {},
    item.spans?.length ? fromLine(item.spans[0]) : make("p", { className: "from" }, item.title || item.table),
    make("p", { className: "words", lang: textLanguage(item.snippet || "") }, markedByCharacters(item.snippet || (item.text || "").slice(0, 300), item.marks || [])),
    item.reason ? make("p", { className: "reason" }, item.reason) : "")))));

export const costLine = (answer) => {
  const { usage } = answer, parts = [answer.method];
  if (answer.model) parts.push(answer.model, countOf(usage.calls, "call"), countOf(usage.prompt_tokens + usage.completion_tokens, "token"));
  if (usage.cost) parts.push(T("cost {0}", usage.cost.toFixed(4)));
  return [...parts, T("{0} s", usage.seconds.toFixed(1))].join(" · ");
};

// One question with what has arrived of its answer.
export class Turn {
  constructor(question) {
    this.question = question;
    this.text = "";
    this.frame = 0;
    this.state = make("p", { className: "state", role: "status" });
    this.body = make("div", { className: "answer prose" });
    this.rest = make("div", { className: "stack" });
    this.element = make("article", { className: "turn" },
      make("h2", { className: "question", lang: textLanguage(question), tabindex: -1 }, question), this.state, this.body, this.rest);
  }

  say(text, { busy = true } = {}) {
    this.state.replaceChildren(...(text ? [busy ? make("span", { className: "pulse" }) : "", make("span", {}, text)] : []));
    this.state.hidden = !text;
  }

  addToken(text) {
    this.text += text;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      if (!this.answer) this.body.replaceChildren(...render(this.text));
    });
  }

  showEvidence(found) { if (found.evidence.length) this.rest.replaceChildren(evidenceList(found)); }

  showAnswer(answer, tools) {
    this.answer = answer;
    const cites = group(answer.citations), quoted = answer.parts.filter(({ kind }) => kind === "passage").flatMap(({ citations }) => citations);
    const listed = new Map([...cites].filter(([n]) => !quoted.includes(n)));
    this.say("");
    this.body.lang = textLanguage(answer.text) || "";
    this.body.replaceChildren(...showParts(answer, cites));
    this.rest.replaceChildren(...[
      listed.size ? sourceList(listed) : "",
      answer.evidence.length ? evidenceList(answer) : "",
      answer.followups?.length ? make("div", { className: "next", "aria-label": T("You could ask next:") }, answer.followups.map((text) => make("button", { type: "button", className: "button hint", value: text }, text))) : "",
      make("div", { className: "turn-tools" }, make("span", { className: "about" }, costLine(answer)), tools),
    ].filter(Boolean));
  }

  showProblem(text, ...tools) {
    this.say("");
    this.rest.prepend(make("div", { className: "note alarm", role: "alert" }, icon("warn"), make("div", {}, make("p", {}, withCode(text)), make("p", { className: "row" }, tools))));
  }
}

// -- an answer as Markdown, for export

export const toMarkdown = (turn) => {
  const sources = turn.answer.citations.map((citation) => {
    const quote = citation.text.trim().split("\n").map((line) => `> ${line}`).join("\n");
    return `[${citation.n}] ${[citation.title, placeOf(citation)].filter(Boolean).join(" · ")}\n${quote}`;
  });
  const write = (part) => markedText(part, (numbers, text) => text || `[${numbers.join(", ")}]`);
  const text = [remarkOf(turn.answer), ...turn.answer.parts.map(write), turn.answer.truncated && TRUNCATED].filter(Boolean).join("\n\n");
  return `## ${turn.answer.question}\n\n${text}\n\n${sources.join("\n\n")}\n`;
};
