// one JSON element per question -> a list of the questions, and the question in the page's address
"use strict";

const byId = (id) => document.getElementById(id);
const INDEX = JSON.parse(byId("index").textContent);
const figure = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

// Create an element. Strings become text nodes, never markup.
const make = (tag, properties = {}, ...inside) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...inside.flat().filter((part) => part !== null && part !== ""));
  return element;
};

// -- prose: Markdown paragraphs, lists, headings and bold; citation numbers link to their quotes

const renderSpans = (text, cited) => text.split(/(\*\*[^*]+\*\*|\[\d+(?:, ?\d+)*\])/).map((part) => {
  if (/^\*\*.+\*\*$/.test(part)) return make("strong", {}, part.slice(2, -2));
  if (!/^\[\d/.test(part) || !cited) return part;
  return make("span", {}, part.split(/(\d+)/).map((n) => (cited.has(Number(n)) && n ? cited.get(Number(n))(n) : n)));
});
const renderProse = (text, cited) => {
  const prose = make("div", { className: "answer-text", tabIndex: 0, role: "group", ariaLabel: "The answer" });
  let list = null, block = null;
  for (const line of text.split("\n")) {
    const item = line.match(/^\s*(?:[-*•]|\d+[.)])\s+(.*)/), heading = line.match(/^#+\s+(.*)/);
    if (item) {
      list ||= prose.appendChild(make("ul"));
      block = list.appendChild(make("li", {}, renderSpans(item[1], cited)));
    } else if (!line.trim()) {
      list = block = null;
    } else if (heading) {
      list = block = null;
      prose.append(make("h5", {}, renderSpans(heading[1], cited)));
    } else if (block) {
      block.append(" ", ...renderSpans(line, cited));
    } else {
      block = prose.appendChild(make("p", {}, renderSpans(line, cited)));
    }
  }
  return prose;
};

// -- one question

const parseId = (id) => id.slice(1).split("-").map(Number);

const renderAnswer = (id, systems) => ([system, text, failed, citations, [calls, tokens, cost, seconds], contexts, numbers]) => {
  const place = (n) => `${id}-${system}-${n}`;
  const cited = new Map(citations.map(([n]) => [n, (label) => {
    const link = make("a", { href: `#${place(n)}` }, label);
    link.onclick = (event) => {
      event.preventDefault();
      const quote = byId(place(n));
      quote.closest("details").open = true;
      quote.scrollIntoView({ block: "nearest" });
      quote.focus({ preventScroll: true });
    };
    return link;
  }]));
  const quotes = citations.map(([n, text, places]) => make("blockquote", { id: place(n), tabIndex: -1 }, `[${n}] ${text}`,
    make("cite", {}, places.map(([uri, at]) => (at ? `${uri}, ${at}` : uri)).join("; "))));
  const usage = [`${figure.format(calls)} ${calls === 1 ? "call" : "calls"}`, `${figure.format(tokens)} tokens`,
    cost ? `cost ${cost}` : "", seconds === null ? "" : `${figure.format(seconds)} s`,
    contexts ? `${contexts} pieces of evidence` : ""].filter(Boolean).join(", ");
  return make("section", { className: "card" }, make("h4", {}, systems[system]),
    make("p", { className: "soft" }, usage),
    failed ? make("p", { className: "alarm" }, `No answer: ${failed}`) : renderProse(text, cited),
    numbers.length ? make("p", { className: "soft" }, numbers.map(([name, value]) => `${name} ${figure.format(value)}`).join(" · ")) : "",
    quotes.length ? make("details", {}, make("summary", {}, `${quotes.length} ${quotes.length === 1 ? "citation" : "citations"}`), quotes) : "");
};

const renderVerdict = (name, systems, [protocol, , a, b, first, replicate, winner, second, reason, why]) => {
  const shownFirst = first === "a" ? systems[a] : systems[b];
  const result = winner === "tie" ? "a tie" : winner === "a" || winner === "b" ? `${systems[winner === "a" ? a : b]} wins` : `${winner}: ${why}`;
  return make("div", { className: "verdict" },
    make("p", {}, make("b", {}, result), make("span", { className: "soft" },
      ` ${name(protocol)}, replicate ${replicate + 1}, ${a === b ? (first === "a" ? "the first" : "the other") + " generation" : shownFirst} shown first${second ? ", second judge" : ""}`)),
    reason === null ? make("p", { className: "soft" }, "See verdicts.jsonl for the reason.") : reason ? make("p", {}, reason) : "");
};

// Group verdicts by pair, protocol and criterion. Their texts are rendered when you unfold them.
const renderVerdicts = (data, systems) => {
  const pairs = new Map();
  for (const row of data.verdicts) {
    const key = `${row[2]} ${row[3]}`;
    if (!pairs.has(key)) pairs.set(key, new Map());
    const criteria = pairs.get(key);
    const criterion = `${row[0]} ${row[1]}`;
    if (!criteria.has(criterion)) criteria.set(criterion, []);
    criteria.get(criterion).push(row);
  }
  const name = (n) => data.names[n];
  const several = new Set(data.verdicts.map((row) => row[0])).size > 1;
  const label = ([[protocol, criterion]]) => name(criterion) + (several ? `, ${name(protocol)}` : "");
  const mean = ([row]) => {
    const points = data.points[row.slice(0, 4).join(" ")];
    return points === undefined ? "–" : figure.format(Math.round(points));
  };
  return [...pairs.values()].map((criteria) => {
    const [, , a, b] = [...criteria.values()][0][0];
    const pair = a === b ? `${systems[a]} against another answer of its own` : `${systems[a]} – ${systems[b]}`;
    const brief = [...criteria.values()].map((rows) => `${label(rows)} ${mean(rows)}`).join(" · ");
    const details = make("details", {}, make("summary", {}, `${pair} `, make("span", { className: "soft" }, brief)));
    details.ontoggle = () => {
      if (details.children.length > 1) return;
      for (const rows of criteria.values()) {
        details.append(make("h4", {}, `${label(rows)}: ${mean(rows)} points of 100 for ${systems[a]}`));
        details.append(...rows.map((row) => renderVerdict(name, systems, row)));
      }
    };
    return details;
  });
};

let currentId = "";
const openQuestion = (id) => {
  const holder = byId(id), article = byId("question");
  currentId = holder ? id : "";
  article.hidden = !holder;
  for (const link of byId("list").querySelectorAll("a")) {
    if (link.hash === `#${id}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  if (!holder) return;
  const data = JSON.parse(holder.textContent), [study] = parseId(id), { systems, name } = INDEX.studies[study];
  const [scope, persona, task] = data.of, at = visibleIds.indexOf(id);
  const step = (to, text) => make("button", { type: "button", disabled: to === undefined, onclick: () => { location.hash = to; } }, text);
  const judgements = renderVerdicts(data, systems);
  article.replaceChildren(...[
    make("div", { className: "steps" }, step(visibleIds[at - 1], "← Previous"), step(at < 0 ? visibleIds[0] : visibleIds[at + 1], "Next →")),
    make("p", { className: "soft" }, [INDEX.studies.length > 1 ? name : "", data.id, scope, persona, task].filter(Boolean).join(" · ")),
    make("h3", {}, data.text),
    data.reference ? make("p", {}, make("b", {}, "Reference answer: "), data.reference) : null,
    data.assertions.length ? make("details", {}, make("summary", {}, `${data.assertions.length} assertions to meet`),
      make("ul", {}, data.assertions.map((text) => make("li", {}, text)))) : null,
    make("div", { className: "answers" }, data.answers.map(renderAnswer(id, systems))),
    judgements.length ? make("h4", {}, "Verdicts: points of the first system of each pair, out of 100") : null,
    ...judgements,
  ].filter(Boolean));
};

// -- the list

let visibleIds = [];
const isMatch = (id, words) => {
  const text = byId(id).textContent.toLowerCase();
  return words.every((word) => text.includes(word));
};
const ORDERS = (systems) => [
  ["original", () => 0],
  ["most contested", ([, , points]) => Math.max(...points.filter((x) => x !== null), 0)],
  ...systems.map((name, at) => [`best for ${name}`, ([, , points]) => -(points[at] ?? -1)]),
  ...systems.map((name, at) => [`worst for ${name}`, ([, , points]) => points[at] ?? 101]),
];
const refillList = () => {
  const study = Number(byId("study").value), { questions, systems } = INDEX.studies[study];
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const key = ORDERS(systems)[Number(byId("order").value)][1];
  const matches = questions.map((question, n) => ({ question, id: `q${study}-${n}`, key: key(question) }))
    .filter(({ id }) => isMatch(id, words));
  matches.sort((one, other) => one.key - other.key);
  visibleIds = matches.map(({ id }) => id);
  byId("count").textContent = `${figure.format(matches.length)} of ${figure.format(questions.length)} questions`;
  byId("list").replaceChildren(...matches.map(({ question: [, text, points], id }) => {
    const best = points.reduce((most, x, at) => (x !== null && (most < 0 || x > points[most]) ? at : most), -1);
    const link = make("a", { href: `#${id}` }, make("span", {}, text),
      make("span", { className: "soft" }, best < 0 ? "" : `best: ${systems[best]}, ${Math.round(points[best])}`));
    if (id === currentId) link.setAttribute("aria-current", "true");
    return make("li", {}, link);
  }));
};
const refillOrders = () => {
  const { systems } = INDEX.studies[Number(byId("study").value)];
  byId("order").replaceChildren(...ORDERS(systems).map(([name], n) => make("option", { value: n }, name)));
};
const navigate = () => {
  const id = location.hash.slice(1);
  if (!/^q\d+-\d+$/.test(id)) return;
  const [study] = parseId(id);
  if (INDEX.studies[study] && Number(byId("study").value) !== study) { byId("study").value = study; refillOrders(); refillList(); }
  openQuestion(id);
  byId("question").scrollIntoView();
  byId("question").focus({ preventScroll: true });
};

byId("tools").hidden = false;
byId("study").replaceChildren(...INDEX.studies.map(({ name }, n) => make("option", { value: n }, name)));
byId("which").hidden = INDEX.studies.length < 2;
byId("study").onchange = () => { refillOrders(); refillList(); };
byId("order").onchange = refillList;
let timer = 0;
byId("search").oninput = () => { clearTimeout(timer); timer = setTimeout(refillList, 150); };
addEventListener("hashchange", navigate);
refillOrders();
refillList();
navigate();
