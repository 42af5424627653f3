// the questions of the studies, each in an element of its own -> a list of them, and the one that the address names
"use strict";

const byId = (id) => document.getElementById(id);
const INDEX = JSON.parse(byId("index").textContent);
const figure = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

// An element of the page: texts are texts, never markup.
const make = (tag, properties = {}, ...inside) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...inside.flat().filter((part) => part !== null && part !== ""));
  return element;
};

// -- prose: paragraphs, lists, headings and bold of Markdown; numbers of citations lead to what they quote

const spans = (text, cited) => text.split(/(\*\*[^*]+\*\*|\[\d+(?:, ?\d+)*\])/).map((part) => {
  if (/^\*\*.+\*\*$/.test(part)) return make("strong", {}, part.slice(2, -2));
  if (!/^\[\d/.test(part) || !cited) return part;
  return make("span", {}, part.split(/(\d+)/).map((n) => (cited.has(Number(n)) && n ? cited.get(Number(n))(n) : n)));
});
const prose = (text, cited) => {
  const found = make("div", { className: "said", tabIndex: 0, role: "group", ariaLabel: "The answer" });
  let list = null, block = null;
  for (const line of text.split("\n")) {
    const item = line.match(/^\s*(?:[-*•]|\d+[.)])\s+(.*)/), heading = line.match(/^#+\s+(.*)/);
    if (item) {
      list ||= found.appendChild(make("ul"));
      block = list.appendChild(make("li", {}, spans(item[1], cited)));
    } else if (!line.trim()) {
      list = block = null;
    } else if (heading) {
      list = block = null;
      found.append(make("h5", {}, spans(heading[1], cited)));
    } else if (block) {
      block.append(" ", ...spans(line, cited));
    } else {
      block = found.appendChild(make("p", {}, spans(line, cited)));
    }
  }
  return found;
};

// -- one question

const parts = (id) => id.slice(1).split("-").map(Number);
const table = (caption, head, rows) => make("div", { className: "wide", tabIndex: 0, role: "group", ariaLabel: caption },
  make("table", {}, make("caption", {}, caption),
    make("thead", {}, make("tr", {}, head.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, rows.map(([name, ...cells]) =>
      make("tr", {}, make("th", { scope: "row" }, name), cells.map((cell) => make("td", {}, cell)))))));

const answer = (id, systems) => ([system, text, failed, citations, [calls, tokens, cost, seconds], contexts, numbers]) => {
  const place = (n) => `${id}-${system}-${n}`;
  const cited = new Map(citations.map(([n]) => [n, (shown) => {
    const to = make("a", { href: `#${place(n)}` }, shown);
    to.onclick = (event) => {
      event.preventDefault();
      const quote = byId(place(n));
      quote.closest("details").open = true;
      quote.scrollIntoView({ block: "nearest" });
      quote.focus({ preventScroll: true });
    };
    return to;
  }]));
  const quotes = citations.map(([n, text, places]) => make("blockquote", { id: place(n), tabIndex: -1 }, `[${n}] ${text}`,
    make("cite", {}, places.map(([uri, at]) => (at ? `${uri}, ${at}` : uri)).join("; "))));
  const spent = [`${figure.format(calls)} ${calls === 1 ? "call" : "calls"}`, `${figure.format(tokens)} tokens`,
    cost ? `cost ${cost}` : "", seconds === null ? "" : `${figure.format(seconds)} s`,
    contexts ? `${contexts} pieces of evidence` : ""].filter(Boolean).join(", ");
  return make("section", { className: "card" }, make("h4", {}, systems[system]),
    make("p", { className: "soft" }, spent),
    failed ? make("p", { className: "alarm" }, `No answer: ${failed}`) : prose(text, cited),
    numbers.length ? make("p", { className: "soft" }, numbers.map(([name, value]) => `${name} ${figure.format(value)}`).join(" · ")) : "",
    quotes.length ? make("details", {}, make("summary", {}, `${quotes.length} cited`), quotes) : "");
};

const POINTS = { a: 100, tie: 50, b: 0 };
const told = (name, systems, [protocol, , a, b, first, replicate, winner, second, reason, why]) => {
  const shown = first === "a" ? systems[a] : systems[b];
  const won = winner === "tie" ? "a tie" : winner in POINTS ? `${systems[winner === "a" ? a : b]} wins` : `${winner}: ${why}`;
  return make("div", { className: "verdict" },
    make("p", {}, make("b", {}, won), make("span", { className: "soft" },
      ` ${name(protocol)}, replicate ${replicate + 1}, ${a === b ? (first === "a" ? "the first" : "the other") + " generation" : shown} shown first${second ? ", second judge" : ""}`)),
    reason === null ? make("p", { className: "soft" }, "Its reason is in verdicts.jsonl.") : reason ? make("p", {}, reason) : "");
};

// By pair and criterion; what was said is made when it is unfolded.
const verdicts = (data, systems) => {
  const pairs = new Map();
  for (const row of data.verdicts) {
    const key = `${row[2]} ${row[3]}`;
    if (!pairs.has(key)) pairs.set(key, new Map());
    const criteria = pairs.get(key);
    if (!criteria.has(row[1])) criteria.set(row[1], []);
    criteria.get(row[1]).push(row);
  }
  const name = (n) => data.names[n];
  const mean = (rows) => {
    const points = rows.filter((row) => row[6] in POINTS && !row[7]).map((row) => POINTS[row[6]]);
    return points.length ? figure.format(Math.round(points.reduce((x, y) => x + y, 0) / points.length)) : "–";
  };
  return [...pairs.values()].map((criteria) => {
    const [, , a, b] = [...criteria.values()][0][0];
    const label = a === b ? `${systems[a]} against another answer of its own` : `${systems[a]} – ${systems[b]}`;
    const brief = [...criteria].map(([n, rows]) => `${name(n)} ${mean(rows)}`).join(" · ");
    const found = make("details", {}, make("summary", {}, `${label} `, make("span", { className: "soft" }, brief)));
    found.ontoggle = () => {
      if (found.children.length > 1) return;
      for (const [n, rows] of criteria) {
        found.append(make("h4", {}, `${name(n)}: ${mean(rows)} points of 100 for ${systems[a]}, the mean of these verdicts`));
        found.append(...rows.map((row) => told(name, systems, row)));
      }
    };
    return found;
  });
};

let shown = "";
const open = (id) => {
  const holder = byId(id), article = byId("question");
  shown = holder ? id : "";
  article.hidden = !holder;
  for (const link of byId("list").querySelectorAll("a")) {
    if (link.hash === `#${id}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  if (!holder) return;
  const data = JSON.parse(holder.textContent), [study] = parts(id), { systems, name } = INDEX.studies[study];
  const [scope, persona, task] = data.of, at = listed.indexOf(id);
  const step = (to, text) => make("button", { type: "button", disabled: to === undefined, onclick: () => { location.hash = to; } }, text);
  const judged = verdicts(data, systems);
  article.replaceChildren(...[
    make("div", { className: "steps" }, step(listed[at - 1], "← Before"), step(at < 0 ? listed[0] : listed[at + 1], "Next →")),
    make("p", { className: "soft" }, [INDEX.studies.length > 1 ? name : "", data.id, scope, persona, task].filter(Boolean).join(" · ")),
    make("h3", {}, data.text),
    data.reference ? make("p", {}, make("b", {}, "An answer that is known to be right: "), data.reference) : null,
    data.assertions.length ? make("details", {}, make("summary", {}, `${data.assertions.length} assertions that it should make`),
      make("ul", {}, data.assertions.map((said) => make("li", {}, said)))) : null,
    make("div", { className: "answers" }, data.answers.map(answer(id, systems))),
    judged.length ? make("h4", {}, "What the judges said: points of the first of each two, of 100") : null,
    ...judged,
  ].filter(Boolean));
};

// -- the list

let listed = [];
const matches = (id, words) => {
  const text = byId(id).textContent.toLowerCase();
  return words.every((word) => text.includes(word));
};
const ORDERS = (systems) => [
  ["as asked", () => 0],
  ["most contested", ([, , points]) => Math.max(...points.filter((x) => x !== null), 0)],
  ...systems.map((name, at) => [`${name} at its best`, ([, , points]) => -(points[at] ?? -1)]),
  ...systems.map((name, at) => [`${name} at its worst`, ([, , points]) => points[at] ?? 101]),
];
const refill = () => {
  const study = Number(byId("study").value), { questions, systems } = INDEX.studies[study];
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const key = ORDERS(systems)[Number(byId("order").value)][1];
  const found = questions.map((question, n) => ({ question, id: `q${study}-${n}`, key: key(question) }))
    .filter(({ id }) => matches(id, words));
  found.sort((one, other) => one.key - other.key);
  listed = found.map(({ id }) => id);
  byId("count").textContent = `${figure.format(found.length)} of ${figure.format(questions.length)} questions`;
  byId("list").replaceChildren(...found.map(({ question: [, text, points], id }) => {
    const best = points.reduce((most, x, at) => (x !== null && (most < 0 || x > points[most]) ? at : most), -1);
    const link = make("a", { href: `#${id}` }, make("span", {}, text),
      make("span", { className: "soft" }, best < 0 ? "" : `best: ${systems[best]}, ${Math.round(points[best])}`));
    if (id === shown) link.setAttribute("aria-current", "true");
    return make("li", {}, link);
  }));
};
const orders = () => {
  const { systems } = INDEX.studies[Number(byId("study").value)];
  byId("order").replaceChildren(...ORDERS(systems).map(([name], n) => make("option", { value: n }, name)));
};
const went = () => {
  const id = location.hash.slice(1);
  if (!/^q\d+-\d+$/.test(id)) return;
  const [study] = parts(id);
  if (INDEX.studies[study] && Number(byId("study").value) !== study) { byId("study").value = study; orders(); refill(); }
  open(id);
  byId("question").scrollIntoView();
  byId("question").focus({ preventScroll: true });
};

byId("tools").hidden = false;
byId("study").replaceChildren(...INDEX.studies.map(({ name }, n) => make("option", { value: n }, name)));
byId("which").hidden = INDEX.studies.length < 2;
byId("study").onchange = () => { orders(); refill(); };
byId("order").onchange = refill;
let waiting = 0;
byId("search").oninput = () => { clearTimeout(waiting); waiting = setTimeout(refill, 150); };
addEventListener("hashchange", went);
orders();
refill();
went();
