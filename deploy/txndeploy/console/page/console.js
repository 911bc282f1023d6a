// The console: which page is shown, and that it is up to date. What is on a page is in pages.js.
//
// Whatever the cluster tells becomes text of the document, never markup.

import { PAGES, TRANSACTION } from "./pages.js";

const SECONDS = 3;
const PATIENCE_SECONDS = 15;
const main = document.getElementById("main");
const trouble = document.getElementById("trouble");
const pause = document.getElementById("pause");
const asOf = document.getElementById("as-of");
const caller = document.getElementById("caller");

let turn = 0; // of the page that is shown: an answer for another one is nobody's
let timer = 0;

function place() {
  const [name, id] = location.hash.replace(/^#\//, "").split("/");
  if (name === "transactions" && /^\d{1,18}$/.test(id ?? "")) return { ...TRANSACTION, path: `transactions/${id}` };
  const known = Object.hasOwn(PAGES, name) ? name : "cluster";
  const from = known === "tables" && id ? `?from=${id}` : "";
  return { ...PAGES[known], path: known + from };
}

function go() {
  if (location.hash && !location.hash.startsWith("#/")) return; // within the page
  const here = place();
  turn += 1;
  for (const link of document.querySelectorAll("nav a")) {
    const isHere = link.getAttribute("href") === `#/${here.path.split(/[/?]/)[0]}`;
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.setAttribute("aria-busy", "true");
  refresh(here, turn, true);
}

async function refresh(here, mine, isNew) {
  clearTimeout(timer);
  try {
    const signal = AbortSignal.timeout(PATIENCE_SECONDS * 1000);
    const answer = await fetch(`api/${here.path}`, { headers: { Accept: "application/json" }, signal });
    const told = await answer.json();
    if (mine !== turn) return;
    if (told.error) throw new Error(told.error.hint ? `${told.error.message}: ${told.error.hint}` : told.error.message);
    show(here, told, isNew);
    say("");
    isNew = false;
  } catch (error) {
    if (mine !== turn) return;
    say(`There is no news: ${error.message}`);
  }
  later(here, mine, isNew);
}

function later(here, mine, isNew) {
  if (pause.getAttribute("aria-pressed") === "true" || document.hidden) return;
  timer = setTimeout(refresh, SECONDS * 1000, here, mine, isNew);
}

function show(here, told, isNew) {
  const selection = document.getSelection();
  if (!isNew && selection && !selection.isCollapsed && main.contains(selection.anchorNode)) return; // somebody copies it
  if (!isNew && main.querySelector("form")?.contains(document.activeElement)) return; // somebody writes in it
  const focused = main.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  main.replaceChildren(...here.show(told));
  main.removeAttribute("aria-busy");
  const title = main.querySelector("h1");
  document.title = `${title.textContent} – txnstatus`;
  caller.textContent = told.caller ? `${told.caller},` : "";
  asOf.textContent = `as of ${told.now.slice(11, 19)} UTC`;
  if (isNew) {
    scrollTo(0, 0); // main.scrollIntoView would have Tab go on from there, past the links above
    if (document.activeElement !== document.body) main.focus({ preventScroll: true });
  } else if (focused !== null) {
    const again = [...main.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused);
    (again ?? main).focus({ preventScroll: true });
  }
}

async function abort(event) {
  event.preventDefault();
  const form = event.target;
  try {
    const answer = await fetch(`api/transactions/${form.dataset.id}/abort`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify({ reason: form.elements.reason.value }),
    });
    const told = answer.headers.get("Content-Type").startsWith("application/json") ? await answer.json() : {};
    if (!answer.ok) throw new Error(told.error?.message ?? answer.statusText);
    main.focus({ preventScroll: true });
    refresh(place(), turn, true);
  } catch (error) {
    say(`It was not aborted: ${error.message}`);
  }
}

function say(text) {
  if (trouble.textContent !== text) trouble.textContent = text; // told once, not at each turn
}

main.addEventListener("submit", abort);
pause.addEventListener("click", () => {
  const paused = pause.getAttribute("aria-pressed") !== "true";
  pause.setAttribute("aria-pressed", String(paused));
  if (paused) clearTimeout(timer);
  else refresh(place(), turn, false);
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && pause.getAttribute("aria-pressed") !== "true") refresh(place(), turn, false);
});
window.addEventListener("hashchange", go);
go();
