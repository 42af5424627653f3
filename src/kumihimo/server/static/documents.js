// files that are dropped or chosen -> uploads, builds with their progress, and a list that is up to date
import { announce, api, byId, countOf, csrf, describe, fetchPart, icon, language, make, prefix, Problem, readEvents, sendJson, T, withCode } from "./lib.js";

const upload = byId("upload"), files = byId("files"), builds = byId("builds"), confirmation = byId("confirm");

// Steps of a build in words; the server has more of them.
const STEPS = {
  documents: T("reading files"), chunks: T("splitting texts into chunks"), names: T("finding names"), entities: T("collecting entities"),
  relations: T("connecting entities"), communities: T("grouping entities"), reports: T("writing reports"),
};

// Show the list as it is now.
const refresh = async () => {
  const fresh = await fetchPart(location.href, "main"), list = fresh.querySelector("#documents");
  if (byId("documents") && !list) { location.reload(); return; } // the whole page changes
  if (list && !byId("documents")) { // what was refused stays on the page
    document.querySelector("main > .empty")?.remove();
    upload.classList.remove("first");
    document.querySelector(".head").replaceWith(fresh.querySelector(".head"));
    byId("main").append(list, fresh.querySelector("nav.pages"));
  } else {
    document.querySelector(".head p").replaceWith(fresh.querySelector(".head p"));
    byId("documents")?.replaceWith(list);
  }
  document.querySelector(".failures")?.remove();
  const failures = fresh.querySelector(".failures");
  if (failures) builds.after(failures);
};

const fail = (...texts) => {
  builds.prepend(make("article", { className: "card build" }, make("p", { className: "note alarm", role: "alert" }, icon("warn"), make("span", {}, texts.flatMap((text, n) => [n ? make("br") : null, ...withCode(text)])))));
};

// -- builds

const show = (card, job) => {
  card.dataset.state = job.state;
  const titles = { queued: T("Waiting"), running: job.kind === "remove" ? T("Removing documents") : T("Reading the documents"), done: T("Done"), failed: T("Failed"), cancelled: T("Cancelled") };
  card.querySelector(".build-title").textContent = titles[job.state];
  if (job.state === "queued" || job.state === "running") return;
  for (const part of card.querySelectorAll("progress, .build-step, .cancel-build")) part.remove();
  const failed = job.result?.failed?.length || 0;
  if (job.state === "done" && job.result) card.append(make("p", { className: "small" }, T("The index now holds {0}.", countOf(job.result.rows.documents || 0, "document")), failed ? ` ${T("Not everything could be read: see below.")}` : ""));
  else if (job.state === "cancelled") card.append(make("p", { className: "small soft" }, T("The index is as it was before.")));
  else if (job.error) card.append(make("p", { className: "note alarm", role: "alert" }, icon("warn"), make("span", {}, withCode(job.error.message))));
  announce(titles[job.state]);
};

const receive = {
  state: (card, job) => show(card, job),
  progress: (card, event) => {
    const bar = card.querySelector("progress");
    if (bar && event.share !== null) bar.value = event.share;
    const items = event.total > 1 ? ` (${event.done} / ${event.total})` : "";
    card.querySelector(".build-step").textContent = `${STEPS[event.step] || event.step}${items}`;
  },
};

// A connection that breaks off goes on after the last event.
const follow = async (card) => {
  let last = "";
  for (let tries = 0; tries < 5 && ["queued", "running"].includes(card.dataset.state); tries++) {
    try {
      const headers = { "Accept-Language": language, ...(last ? { "Last-Event-ID": last } : {}) };
      const response = await fetch(`${api}/builds/${card.dataset.build}/events`, { headers });
      if (!response.ok) break;
      for await (const event of readEvents(response)) {
        last = event.id || last;
        tries = 0;
        receive[event.name]?.(card, event.data);
      }
    } catch (error) { if (!(error instanceof TypeError)) throw error; }
  }
  await refresh();
};

const cardOf = (job) => {
  byId("builds").querySelectorAll('[data-state="done"], [data-state="failed"], [data-state="cancelled"]').forEach((old) => old.remove());
  const known = byId(`build-${job.id}`);
  if (known) return known;
  const cancel = make("button", { className: "button quiet" }, icon("close"), T("Cancel"));
  const form = make("form", { method: "post", action: `${prefix}/builds/${job.id}/cancel`, className: "cancel-build" }, make("input", { type: "hidden", name: "csrf", value: csrf }), cancel);
  const card = make("article", { className: "card build", id: `build-${job.id}`, "data-build": job.id, "data-state": job.state },
    make("div", { className: "row ends" }, make("h2", { className: "build-title" }), form),
    make("progress", { max: 1, "aria-label": T("Progress of the build") }), make("p", { className: "small soft build-step" }));
  builds.prepend(card);
  show(card, job);
  return card;
};
const track = (job) => follow(cardOf(job));

builds?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const card = event.target.closest(".build");
  try { await sendJson(`/builds/${card.dataset.build}/cancel`); } catch (error) { fail(describe(error)); }
});

// -- uploads: a request that says how much has been sent

const send = (chosen) => new Promise((resolve, reject) => {
  const bar = make("progress", { max: 1, value: 0, "aria-label": T("Progress of the upload") });
  const request = new XMLHttpRequest();
  const card = make("article", { className: "card build", "data-upload": "" },
    make("div", { className: "row ends" }, make("h2", { className: "build-title" }, T("Sending {0}", countOf(chosen.length, "file"))),
      make("button", { type: "button", className: "button quiet", onclick: () => request.abort() }, icon("close"), T("Cancel"))), bar);
  const form = new FormData();
  for (const file of chosen) form.append("files", file, file.name);
  builds.prepend(card);
  request.upload.addEventListener("progress", ({ loaded, total }) => { bar.value = loaded / total; });
  request.addEventListener("loadend", () => {
    card.remove();
    const body = request.response || {};
    if (request.status >= 200 && request.status < 300) resolve(body);
    else if (request.status) reject(new Problem(request.status, [body.detail, body.remedy].filter(Boolean).join(". ")));
    else resolve(null); // cancelled
  });
  request.addEventListener("error", () => reject(new TypeError()));
  request.open("POST", `${api}/documents`);
  request.responseType = "json";
  request.setRequestHeader("X-CSRF-Token", csrf);
  request.setRequestHeader("Accept-Language", language);
  request.send(form);
});

const add = async (chosen) => {
  if (!chosen.length) return;
  for (const batch of batches([...chosen])) {
    try {
      const sent = await send(batch);
      if (!sent) return;
      if (sent.refused.length) fail(...sent.refused);
      if (!byId(`build-${sent.build.id}`)) track(sent.build); // two requests may share a build
    } catch (error) { fail(...describe(error).split("\n")); }
  }
};

// Requests within the limits of the server; a file that is larger goes alone, and gets its own answer.
const batches = (chosen) => {
  const made = [], { maxFiles, maxBytes } = upload.dataset, head = 2000; // bytes around a file
  let room = -1;
  for (const file of chosen) {
    room -= file.size + head;
    if (room < 0 || made.at(-1).length >= maxFiles) {
      made.push([]);
      room = maxBytes - head - file.size - head;
    }
    made.at(-1).push(file);
  }
  return made;
};

if (upload) {
  files.addEventListener("change", async () => { await add(files.files); files.value = ""; });
  upload.addEventListener("submit", (event) => { event.preventDefault(); files.click(); });
  const over = (event) => { if (event.dataTransfer?.types.includes("Files")) { event.preventDefault(); upload.classList.add("is-over"); } };
  addEventListener("dragover", over);
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) upload.classList.remove("is-over"); });
  addEventListener("drop", (event) => {
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    upload.classList.remove("is-over");
    add(event.dataTransfer.files);
  });
  for (const card of builds.querySelectorAll('[data-state="queued"], [data-state="running"]')) follow(card);
}

// -- deleting, after a question

const ask = (text) => new Promise((resolve) => {
  byId("confirm-what").textContent = text;
  confirmation.returnValue = "";
  confirmation.addEventListener("close", () => resolve(confirmation.returnValue === "delete"), { once: true });
  confirmation.showModal();
});

addEventListener("click", async (event) => {
  const link = event.target.closest?.("a.delete");
  if (!link) return;
  event.preventDefault();
  const row = link.closest(".document");
  if (!await ask(row.dataset.uri)) return;
  try {
    row.classList.add("is-going");
    const response = await sendJson(`/documents/${row.dataset.id}`, undefined, { method: "DELETE" });
    await track((await response.json()).build);
  } catch (error) {
    row.classList.remove("is-going");
    fail(describe(error));
  }
});
