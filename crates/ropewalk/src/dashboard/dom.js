// Elements and tables. All text from the server goes through `textContent` here; nothing is parsed as HTML.

/** The element with an id. */
export const $ = (id) => document.getElementById(id);

/** Makes an element. `props`: class, text, on (listeners), data, and attributes. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "text") node.textContent = value;
    else if (name === "on") for (const [event, f] of Object.entries(value)) node.addEventListener(event, f);
    else if (name === "data") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Sets text only when it differs, so that a screen reader and a selection are left in peace. */
export function setText(node, text) {
  const wanted = String(text ?? "");
  if (node.textContent !== wanted) node.textContent = wanted;
}

/** A sentence that begins with a capital letter; what stands between backticks is code. */
export function sentence(text) {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return whole.split("`").map((part, at) => (at % 2 ? el("code", { text: part }) : part));
}

/** Shows or hides. */
export function show(node, isShown) {
  node.hidden = !isShown;
}

const SVG = "http://www.w3.org/2000/svg";

/** Makes an element of SVG. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** The sign of a level: its shape differs as well as its colour. */
export function icon(level) {
  const use = svg("use", { href: `#i-${level}` });
  return svg("svg", { class: "icon", "aria-hidden": "true", "data-level": level }, use);
}

/** Fills a cell with a sign and a word. */
export function badge(cell, level, text) {
  const mark = `${level}|${text}`;
  if (cell.dataset.mark === mark) return;
  cell.dataset.mark = mark;
  cell.replaceChildren(el("span", { class: "badge", data: { level } }, icon(level), el("span", { text })));
}

/** Fills a cell with a bar, and the words that say the same. */
export function bar(cell, part, text, level = "plain") {
  let wrap = cell.firstElementChild;
  if (!wrap) {
    wrap = el("div", { class: "bar" }, el("span", { class: "track", "aria-hidden": "true" }, el("span")), el("span"));
    cell.append(wrap);
  }
  wrap.dataset.level = level;
  const known = Number.isFinite(part) ? Math.min(1, Math.max(0, part)) : 0;
  wrap.firstElementChild.firstElementChild.style.width = `${(known * 100).toFixed(1)}%`;
  setText(wrap.lastElementChild, text);
}

/** Fills a cell with buttons; they stay the same elements until `mark` changes, so that the focus stays. */
export function buttons(cell, mark, make) {
  if (cell.dataset.mark === mark) return;
  cell.dataset.mark = mark;
  cell.replaceChildren(...make());
}

/** A list of terms and values. */
export function facts(list, entries) {
  while (list.children.length > entries.length) list.lastElementChild.remove();
  while (list.children.length < entries.length) list.append(el("div", {}, el("dt"), el("dd")));
  entries.forEach(([term, value, level], at) => {
    const row = list.children[at];
    setText(row.firstElementChild, term);
    setText(row.lastElementChild, value);
    row.dataset.level = level ?? "plain";
  });
}

/**
 * A table whose rows are kept by key: only what changed is touched.
 * A column has `label`, and `text(row)` or `fill(cell, row)`; `number` sets it to the right.
 * Roles are spelled out, because on a phone the rows are shown as cards, and browsers then forget that it is a table.
 */
export class Table {
  constructor(place, { caption, columns, key, empty }) {
    this.columns = columns;
    this.key = key;
    this.rows = new Map();
    const head = columns.map((c) =>
      el("th", { scope: "col", role: "columnheader", class: c.number ? "number" : null }, c.label || el("span", { class: "hidden-text", text: c.hiddenLabel })),
    );
    this.body = el("tbody", { role: "rowgroup" });
    this.table = el(
      "table",
      { role: "table" },
      el("caption", { class: "hidden-text", text: caption }),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...head)),
      this.body,
    );
    this.empty = el("p", { class: "muted empty", text: empty });
    place.replaceChildren(this.table, this.empty);
    this.update([]);
  }

  update(rows) {
    show(this.table, rows.length > 0);
    show(this.empty, rows.length === 0);
    const gone = new Set(this.rows.keys());
    let at = this.body.firstElementChild;
    for (const row of rows) {
      const key = String(this.key(row));
      gone.delete(key);
      let tr = this.rows.get(key);
      if (!tr) {
        tr = this.#make();
        this.rows.set(key, tr);
      }
      this.columns.forEach((column, i) => {
        const cell = tr.children[i];
        if (column.fill) column.fill(cell, row);
        else setText(cell, column.text(row));
      });
      if (tr === at) at = at.nextElementSibling;
      else this.body.insertBefore(tr, at);
    }
    for (const key of gone) {
      this.rows.get(key).remove();
      this.rows.delete(key);
    }
  }

  #make() {
    const cells = this.columns.map((column, i) => {
      const props = { class: column.number ? "number" : null, data: { label: column.label || "" } };
      return i === 0
        ? el("th", { scope: "row", role: "rowheader", ...props })
        : el("td", { role: "cell", ...props });
    });
    return el("tr", { role: "row" }, ...cells);
  }
}
