"use strict";
(() => {
  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  const unmark = () => {
    for (const mark of document.querySelectorAll("mark")) {
      const parent = mark.parentNode;
      mark.replaceWith(...mark.childNodes);
      parent.normalize();
    }
  };
  const highlight = (place, words) => {
    const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    const nodes = [];
    while (walker.nextNode()) nodes.push(walker.currentNode);
    for (const node of nodes) {
      const at = node.data.toLowerCase().indexOf(words);
      if (at < 0 || at + words.length > node.data.length) continue;
      const found = node.splitText(at);
      found.splitText(words.length);
      const mark = document.createElement("mark");
      found.replaceWith(mark);
      mark.append(found);
    }
  };
  const search = document.getElementById("search");
  const count = document.getElementById("count");
  search.addEventListener("input", () => {
    unmark();
    const words = search.value.trim().toLowerCase();
    let shown = 0;
    for (const turn of document.querySelectorAll(".turn")) {
      const hit = !words || turn.textContent.toLowerCase().includes(words);
      turn.hidden = !hit;
      shown += hit;
      if (hit && words) {
        for (const folded of turn.querySelectorAll("details")) {
          if (folded.textContent.toLowerCase().includes(words)) folded.open = true;
        }
        highlight(turn, words);
      }
    }
    count.textContent = words ? `${shown} turn${shown === 1 ? "" : "s"}` : "";
  });

  const key = (cell) => {
    const text = cell.textContent.trim();
    const number = Number(text.replaceAll(",", ""));
    return text !== "" && !Number.isNaN(number) ? number : text;
  };
  const compare = (a, b) =>
    typeof a === typeof b
      ? typeof a === "number" ? a - b : a.localeCompare(b)
      : typeof a === "number" ? -1 : 1;
  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      const header = button.parentElement;
      const table = header.closest("table");
      const column = header.cellIndex;
      const down = header.getAttribute("aria-sort") === "ascending";
      for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => compare(key(a.cells[column]), key(b.cells[column])) * (down ? -1 : 1));
      table.tBodies[0].append(...rows);
    });
  }
})();
