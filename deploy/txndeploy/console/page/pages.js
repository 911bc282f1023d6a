// What is on each page: functions of a document of the API to nodes of the page's document.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const FIRST = 5; // of many in one cell
const BRIEF = 60; // characters of a name beside others
const STATES = { OPEN: "busy", COMMITTED: "good", ABORTED: "bad", ABORT_IN_PROGRESS: "bad" };
const COMPACTIONS = { succeeded: "good", failed: "bad", working: "busy", initiated: "busy" };

// ---- nodes

function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const span = (kind, text) => el("span", { class: kind }, text);
const quiet = (text) => span("quiet", text);
const dash = () => quiet("–");
const text = (value) => (value === null || value === undefined || value === "" ? dash() : String(value));
const number = (value) => (value === null || value === undefined ? dash() : counted(value));
const linkTo = (id) => el("a", { href: `#/transactions/${id}`, class: "whole" }, String(id));
const state = (name) => span(STATES[name] ?? "busy", name);
const lines = (values) => (values.length ? el("span", {}, ...between(values.map(String))) : dash());
const owned = (row) => (row.label ? `${row.owner} (${row.label})` : row.owner);

function between(parts) {
  return parts.flatMap((part, index) => (index ? [", ", part] : [part]));
}

// The first of many: a cell for all of them would leave no room for the others.
function names(values) {
  if (!values.length) return dash();
  const more = values.length > FIRST ? ` and ${number(values.length - FIRST)} more` : "";
  return el("span", {}, ...between(values.slice(0, FIRST).map(brief)), more);
}

// A long name without its middle.
function brief(name) {
  if (name.length <= BRIEF) return name;
  return el("span", { title: name }, `${name.slice(0, BRIEF / 2)}…${name.slice(-BRIEF / 2)}`);
}

// Beyond 2^53 a page knows only about how many it is.
function counted(value) {
  if (Number.isSafeInteger(value)) return value.toLocaleString("en");
  return `about ${value.toLocaleString("en", { maximumSignificantDigits: 3 })}`;
}

// Three digits, and none of them an exponent's.
const digits = (value) => (value >= 99.95 ? String(Math.round(value)) : value.toPrecision(3));

function time(at) {
  return at ? el("time", { datetime: at, title: at }, `${at.slice(0, 10)} ${at.slice(11, 19)}`) : dash();
}

function seconds(value) {
  if (value === null || value === undefined) return "more";
  if (value < 0.9995) return `${digits(value * 1000)} ms`;
  if (value < 120) return `${value.toFixed(1)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  return value < 172800 ? `${Math.round(value / 3600)} h` : `${Math.round(value / 86400)} d`;
}

const micros = (at) => Date.parse(at.slice(0, 19) + "Z") * 1000 + Number(at.slice(20, 26));
const apart = (from, until) => (from && until ? seconds(Math.max(0, micros(until) - micros(from)) / 1e6) : dash());

function bytes(value) {
  if (value === null || value === undefined) return dash();
  let unit = 0;
  for (; value >= 1023.5 && unit < UNITS.length - 1; unit += 1) value /= 1024;
  return `${unit ? digits(value) : value} ${UNITS[unit]}`;
}

// columns: [heading, cell of a row, class of the cells]; the first one is the row's heading.
function table(caption, columns, rows, none) {
  if (!rows.length) return el("p", { class: "quiet" }, none);
  const head = columns.map(([heading, , kind]) => el("th", { scope: "col", class: kind ?? "" }, heading));
  const body = rows.map((row) =>
    el("tr", {}, ...columns.map(([, cell, kind], index) =>
      el(index ? "td" : "th", index ? { class: kind ?? "" } : { scope: "row", class: kind ?? "" }, cell(row)))));
  const grid = el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, grid);
}

function facts(pairs) {
  return el("dl", {}, ...pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

// ---- pages

function cluster({ id, nodes, groups, moves, options }) {
  const silent = nodes.filter((node) => !node.answers);
  const led = (node) => groups.filter((row) => row.node === node && row.role === "leader").map((row) => row.group);
  return [
    el("h1", {}, "Cluster"),
    el("p", {}, `${id}: ${nodes.length - silent.length} of ${nodes.length} nodes answer.`),
    table("Nodes", [
      ["node", (row) => row.node],
      ["address", (row) => row.address],
      ["roles", (row) => lines(row.roles)],
      ["", (row) => (row.answers ? span("good", "answers") : span("bad", "no answer")), "whole"],
      ["", (row) => (row.drain ? span("bad", row.drain) : "")],
      ["leads", (row) => lines(led(row.node))],
    ], nodes, "There are no nodes."),
    el("h2", {}, "Groups"),
    table("Replicas of groups", [
      ["node", (row) => row.node],
      ["group", (row) => text(row.group), "whole"],
      ["role", (row) => span({ leader: "good", follower: "quiet", learner: "quiet", "no replica": "quiet", "not told": "quiet" }[row.role] ?? "bad", row.role), "whole"],
      ["term", (row) => number(row.term), "number"],
      ["committed", (row) => number(row.committed), "number"],
      ["applied", (row) => number(row.applied), "number"],
      ["parts", (row) => lines(row.parts ?? [])],
    ], groups, "There are no groups."),
    el("h2", {}, "Moves"),
    table("Replicas that move", [
      ["group", (row) => row.group],
      ["from", (row) => text(row.from_node)],
      ["to", (row) => text(row.to_node)],
      ["state", (row) => row.state],
    ], moves, "None: no replica moves."),
    el("h2", {}, "Options"),
    table("Options of the cluster", [
      ["option", (row) => row.name],
      ["value", (row) => number(row.value), "number"],
      ["meaning", (row) => row.meaning],
    ], options, "There are no options."),
  ];
}

function transactions({ now, transactions: rows, more }) {
  return [
    el("h1", {}, "Live transactions"),
    table(more ? `The newest ${rows.length}; there are more` : `${rows.length} that have not ended`, [
      ["id", (row) => linkTo(row.id), "whole"],
      ["state", (row) => state(row.state), "whole"],
      ["owner", (row) => text(row.owner)],
      ["label", (row) => text(row.label)],
      ["age", (row) => apart(row.begin, now), "number"],
      ["in this state", (row) => apart(row.last_transition ?? row.begin, now), "number"],
      ["participants", (row) => names(row.participants)],
    ], rows, "None: all transactions have ended."),
  ];
}

function abortForm(row) {
  const reason = el("input", { name: "reason", id: "reason", required: "", maxlength: "500", autocomplete: "off" });
  const label = el("label", { for: "reason" }, "Reason, kept in its record");
  return el("form", { "data-id": row.id }, label, " ", reason, " ", el("button", { type: "submit" }, `Abort transaction ${row.id}`));
}

function transaction({ now, caller, transaction: row, explanation, story }) {
  const over = row.state === "COMMITTED" || row.state === "ABORTED";
  const mayEnd = caller && (row.state === "OPEN" || row.state === "COMMIT_IN_PROGRESS");
  return [
    el("h1", {}, `Transaction ${row.id}`),
    facts([
      ["state", state(row.state)],
      ["owner", text(row.owner)],
      ["label", text(row.label)],
      [over ? "took" : "age", apart(row.begin, over ? row.last_transition ?? row.end : now)],
      ["commit", time(row.commit ?? (row.state === "COMMITTED" ? row.end : null))],
    ]),
    el("h2", {}, "Why"),
    ...explanation.story.map((each, index) => el("p", {}, `${index ? "" : `Transaction ${row.id} `}${each}.`)),
    explanation.advice.length ? el("ul", {}, ...explanation.advice.map((each) => el("li", {}, each))) : null,
    mayEnd ? abortForm(row) : null,
    el("h2", {}, "What happened when"),
    el("ol", { class: "story" }, ...story.map((event) =>
      el("li", {},
        el("span", { class: "after" }, `+ ${story[0] === event ? "0 ms" : apart(story[0].at, event.at)}`),
        el("time", { datetime: event.at }, event.at.slice(11, 23)),
        event.who, " ", event.what))),
    el("h2", {}, "Participants"),
    table("What it has come to in each", [
      ["participant", (each) => each.name],
      ["state", (each) => text(each.state), "whole"],
      ["prepared", (each) => time(each.begin_commit), "whole"],
      ["committed", (each) => time(each.commit), "whole"],
      ["locks", (each) => lines(each.locks)],
    ], row.participants, "Nothing is on record of any."),
  ].filter((node) => node !== null);
}

function locks({ now, locks: rows, waits, more }) {
  return [
    el("h1", {}, "Locks"),
    el("h2", {}, "Who waits for whom"),
    waits.length ? tree(waits) : el("p", { class: "quiet" }, "Nobody waits for a lock."),
    el("h2", {}, "All locks"),
    table(more ? `The first ${rows.length}; there are more` : `${rows.length} locks`, [
      ["object", (row) => row.object],
      ["mode", (row) => row.mode, "whole"],
      ["", (row) => span(row.state === "acquired" ? "good" : "busy", row.state), "whole"],
      ["transaction", (row) => linkTo(row.txn_id), "whole"],
      ["owner", owned],
      ["for", (row) => apart(row.since, now), "number"],
      ["behind", (row) => (row.blocked_by.length ? el("span", {}, ...between(row.blocked_by.map(linkTo))) : dash())],
    ], rows, "Nobody holds a lock."),
  ];
}

// The waits come depth first, with their depths.
function tree(waits) {
  const lists = [el("ul", { class: "waits" })];
  let last = null;
  for (const wait of waits) {
    if (wait.depth >= lists.length) {
      lists.push(el("ul"));
      last.append(lists.at(-1));
    }
    lists.length = wait.depth + 1;
    const what = wait.objects.length ? ` waits for ${wait.objects.join(", ")}` : " holds what others wait for";
    const who = wait.owner ? ` of ${owned(wait)}` : "";
    last = el("li", {}, linkTo(wait.txn_id), who, what, wait.circle ? span("bad", " – in a circle") : null);
    lists[wait.depth].append(last);
  }
  return lists[0];
}

function tables({ tables: rows, compactions, next }) {
  return [
    el("h1", {}, "Tables"),
    table("Tables, and what readers see of them", [
      ["table", (row) => row.name],
      ["health", (row) => (row.damage ? span("bad", row.damage) : span("good", "can be read"))],
      ["rows", (row) => number(row.rows), "number"],
      ["files", (row) => number(row.files), "number"],
      ["size", (row) => bytes(row.bytes), "number"],
      ["row changes", (row) => (row.row_changes === null ? dash() : row.row_changes ? "in memory" : "none")],
      ["conflicts", (row) => row.conflict_strategy, "whole"],
      ["location", (row) => row.location],
    ], rows, "There are no tables."),
    next ? el("p", {}, el("a", { href: `#/tables/${encodeURIComponent(next)}` }, `More, from ${next} on`)) : null,
    el("h2", {}, "Compactions"),
    table("The newest first", [
      ["table", (row) => row.table],
      ["partition", (row) => text(row.partition)],
      ["kind", (row) => row.kind],
      ["state", (row) => span(COMPACTIONS[row.state] ?? "quiet", row.state)],
      ["opened", (row) => time(row.opened), "whole"],
      ["ended", (row) => time(row.ended), "whole"],
      ["reads", (row) => bytes(row.input_bytes), "number"],
      ["files", (row) => number(row.output_files), "number"],
      ["worker", (row) => text(row.worker)],
      ["reason", (row) => text(row.reason)],
    ], compactions, "There were none."),
  ].filter((node) => node !== null);
}

function conflicts({ conflicts: rows, more }) {
  return [
    el("h1", {}, "Conflicts"),
    table(more ? `${rows.length} of the last hour; there are more` : `${rows.length} of the last hour`, [
      ["lost", (row) => linkTo(row.id), "whole"],
      ["owner", owned],
      ["at", (row) => time(row.last_transition), "whole"],
      ["was first", (row) => (row.winner === null ? dash() : linkTo(row.winner)), "whole"],
      ["in", (row) => names(row.conflicts)],
      ["reason", (row) => text(row.abort_reason)],
    ], rows, "There were none."),
  ];
}

function slow({ steps, slowest }) {
  return [
    el("h1", {}, "Slow steps"),
    table("Steps of this node, since its start; half of them, and 99 of 100, took as long or less", [
      ["step", (row) => row.step],
      ["times", (row) => number(row.count), "number"],
      ["refused", (row) => number(row.refused), "number"],
      ["mean", (row) => seconds(row.mean_seconds), "number"],
      ["half", (row) => seconds(row.median_seconds), "number"],
      ["99 %", (row) => seconds(row.p99_seconds), "number"],
    ], steps, "Nothing was done yet."),
    el("h2", {}, "Slow transactions"),
    table("Of those that ended, and began within the last hour", [
      ["id", (row) => linkTo(row.id), "whole"],
      ["took", (row) => apart(row.begin, row.last_transition), "number"],
      ["state", (row) => state(row.state), "whole"],
      ["owner", owned],
      ["participants", (row) => names(row.participants)],
    ], slowest, "There were none."),
  ];
}

export const PAGES = {
  cluster: { show: cluster },
  transactions: { show: transactions },
  locks: { show: locks },
  tables: { show: tables },
  conflicts: { show: conflicts },
  slow: { show: slow },
};
export const TRANSACTION = { show: transaction };
