// page.js - the table of all rows, and what a reader sees who points at a mark. Everything else is there without it.
"use strict";
(() => {
  const { strings, rows } = JSON.parse(document.getElementById("data").textContent);
  // In the order of html.cpp. "s": a place in `strings`; "n": a number, 0 where it is not known.
  const columns = [
    ["layer", "s"], ["problem", "s"], ["suite", "s"], ["type", "s"], ["device", "s"], ["kernel", "s"], ["math", "s"],
    ["time", "n", "us"], ["from", "n", "us"], ["to", "n", "us"], ["count", "n"], ["rate", "n", "GFLOP/s"],
    ["roof", "n", "%"], ["baseline", "s"], ["ratio", "n"], ["error", "n"], ["bound", "n", "%"], ["status", "s"], ["reason", "s"],
  ].map(([name, kind, unit]) => ({ name, kind, unit, title: unit ? `${name}, ${unit}` : name }));
  const place = Object.fromEntries(columns.map((column, at) => [column.name, at]));
  const value = (row, at) => (columns[at].kind === "s" ? strings[rows[row][at]] : rows[row][at]);
  const shown = (row, at) => {
    const v = value(row, at);
    return columns[at].kind === "s" ? v : v === 0 ? "" : String(v);
  };
  const $ = (id) => document.getElementById(id);
  const table = document.querySelector("table"), head = table.tHead, body = table.tBodies[0];

  // Columns that say the same in every row stand above the table instead.
  const visible = [], same = [];
  columns.forEach((column, at) => {
    const first = rows.length ? shown(0, at) : "";
    if (rows.some((_, row) => shown(row, at) !== first) || column.name === "problem") visible.push(at);
    else if (first !== "" && !(column.name === "count" && first === "1")) same.push(`${column.title} ${first}`);
  });
  $("same").textContent = same.length ? `The same in every row: ${same.join(", ")}.` : "";

  let sorted = -1, upwards = true, limit = 200, found = rows.map((_, row) => row);
  const texts = rows.map((_, row) => columns.map((_, at) => shown(row, at)).join(" ").toLowerCase());

  // "ratio<1 depthwise": a question for each word, all of which a row must answer.
  const questions = (text) => text.trim().split(/\s+/).filter(Boolean).map((word) => {
    const asked = /^([a-z]+)(<=|>=|<|>|=)(.+)$/.exec(word.toLowerCase());
    if (!asked || place[asked[1]] === undefined) return (row) => texts[row].includes(word.toLowerCase());
    const at = place[asked[1]], limit = Number(asked[3]);
    if (columns[at].kind === "s") return (row) => shown(row, at).toLowerCase() === asked[3];
    const holds = { "<": (v) => v < limit, ">": (v) => v > limit, "<=": (v) => v <= limit, ">=": (v) => v >= limit, "=": (v) => v === limit }[asked[2]];
    return (row) => value(row, at) !== 0 && holds(value(row, at));
  });

  const draw = () => {
    const asked = questions($("filter").value);
    found = rows.map((_, row) => row).filter((row) => asked.every((question) => question(row)));
    if (sorted >= 0) {
      const numbers = columns[sorted].kind === "n";
      found.sort((a, b) => {
        const x = value(a, sorted), y = value(b, sorted);
        if (numbers && (x === 0) !== (y === 0)) return x === 0 ? 1 : -1; // unknown last, whichever way
        const order = numbers ? x - y : x < y ? -1 : x > y ? 1 : 0;
        return upwards ? order : -order;
      });
    }
    body.replaceChildren(...found.slice(0, limit).map((row) => {
      const line = document.createElement("tr");
      line.id = `row-${row}`;
      for (const at of visible) {
        const cell = line.insertCell();
        cell.textContent = shown(row, at);
        if (columns[at].kind === "n") cell.className = "number";
        const low = columns[at].name === "ratio" && value(row, at) > 0 && value(row, at) < 1;
        if (low || (columns[at].name === "status" && value(row, at) !== "good")) cell.classList.add("bad");
      }
      return line;
    }));
    $("shown").textContent = `${Math.min(limit, found.length)} of ${rows.length} rows`;
    $("all").hidden = found.length <= limit;
    for (const cell of head.rows[0].cells)
      cell.setAttribute("aria-sort", Number(cell.dataset.at) !== sorted ? "none" : upwards ? "ascending" : "descending");
  };

  const line = head.insertRow();
  for (const at of visible) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.dataset.at = at;
    if (columns[at].kind === "n") cell.className = "number";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = columns[at].title;
    button.onclick = () => { upwards = sorted === at ? !upwards : true; sorted = at; draw(); };
    cell.append(button);
    line.append(cell);
  }
  $("filter").oninput = draw;
  $("all").onclick = () => { limit = rows.length; draw(); };
  draw();

  // What a mark is, beside it; a click goes to its row.
  const tip = $("tip");
  const words = (row) => {
    const of = (name) => shown(row, place[name]);
    const lines = [of("layer"), of("problem"), `${of("type")} on ${of("device")}${of("kernel") ? ", " + of("kernel") : ""}`];
    if (of("status") !== "good") lines.push(`${of("status")}: ${of("reason")}`);
    if (of("time")) lines.push(`${of("time")} us${of("from") ? ` (${of("from")} to ${of("to")})` : ""}${of("rate") ? `, ${of("rate")} GFLOP/s` : ""}`);
    if (of("roof")) lines.push(`${of("roof")} % of the roof`);
    if (of("ratio")) lines.push(`${of("ratio")} of ${of("baseline")}`);
    if (of("bound")) lines.push(`error ${of("error")}, ${of("bound")} % of its bound`);
    return lines.filter(Boolean).join("\n");
  };
  const mark = (event) => event.target instanceof Element ? event.target.closest("[data-r]") : null;
  document.addEventListener("pointerover", (event) => {
    const over = mark(event);
    tip.style.display = over ? "block" : "none";
    if (!over) return;
    tip.textContent = words(Number(over.dataset.r));
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18}px`;
  });
  document.addEventListener("click", (event) => {
    const over = mark(event);
    if (!over) return;
    const row = Number(over.dataset.r);
    if (!found.slice(0, limit).includes(row)) { $("filter").value = ""; limit = rows.length; draw(); }
    document.querySelector("tr.marked")?.classList.remove("marked");
    const line = $(`row-${row}`);
    line.classList.add("marked");
    if (over.closest("svg")) line.scrollIntoView({ block: "center" });
    else { event.preventDefault(); line.scrollIntoView({ block: "center" }); }
  });
})();
