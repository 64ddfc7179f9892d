"use strict";
// Refreshes the parts of the page that have the attribute data-refresh, every 5 seconds while the page is visible.
// Without scripts the browser loads the whole page again (meta refresh).
const EVERY_MS = 5000;

// A part with an open text or a selection stays as it is, so that it can be copied.
function inUse(part) {
  const selection = document.getSelection();
  return part.contains(document.activeElement) || (selection && !selection.isCollapsed && part.contains(selection.anchorNode));
}

function replacePart(part, fresh) {
  const open = [...part.querySelectorAll("details[open]")].map((one) => one.id);
  const scrolled = [...part.querySelectorAll(".scroll"), part].map((one) => one.scrollLeft);
  part.replaceChildren(...fresh.childNodes);
  part.className = fresh.className;
  open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
  [...part.querySelectorAll(".scroll"), part].forEach((one, n) => { one.scrollLeft = scrolled[n] || 0; });
}

async function refresh() {
  if (document.hidden) return;
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!response.ok) throw new Error(String(response.status));
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const part of document.querySelectorAll("[data-refresh]")) {
      const next = fresh.getElementById(part.id);
      if (next && !inUse(part)) replacePart(part, next);
    }
    document.documentElement.classList.remove("stale");
    document.documentElement.dataset.refreshed = String(Date.now());
  } catch {
    document.documentElement.classList.add("stale");
  }
}

// Offers known keys that contain what is typed. A request begins when nothing was typed for a moment.
const PAUSE_MS = 250;

function offerKeys(input) {
  let waiting = 0;
  let offered = null;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      const part = input.value;
      if (part === offered) return;
      try {
        const response = await fetch(`${input.dataset.keys}?part=${encodeURIComponent(part)}`);
        const { keys } = await response.json();
        if (part !== input.value) return;
        offered = part;
        input.list.replaceChildren(...keys.map((key) => Object.assign(document.createElement("option"), { value: key })));
      } catch {
        // without an answer the keys stay that were offered before
      }
    }, PAUSE_MS);
  });
}

document.querySelectorAll("input[data-keys]").forEach(offerKeys);
setInterval(refresh, EVERY_MS);
