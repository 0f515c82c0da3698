// Dialogs and short messages. Owns <dialog> elements; the browser keeps the focus inside and gives it back.

import { $, el, setText, show } from "./dom.js";
import { ask } from "./api.js";

/** How long a message stays. */
const TOAST_MS = 8000;

let toastTimer = 0;

/** Says what was done. */
export function toast(text) {
  const place = $("toast");
  clearTimeout(toastTimer);
  show(place, true);
  setText(place, text);
  toastTimer = setTimeout(() => show(place, false), TOAST_MS);
}

/** Closes what is open, as when the session ends. */
export function closeAll() {
  for (const id of ["confirm", "details"]) $(id).close();
  show($("toast"), false);
}

/**
 * Asks before an order is given. `onError` sees what the server refused, so that the session can end.
 * An order has: title, text (sentences), verb, order {method, path, body}, done(answer); and may have extra (nodes) and
 * check {path, body, again}: a dry run when the dialog opens, and when the field `again` changes.
 */
export class Orders {
  constructor(onError) {
    this.onError = onError;
    this.dialog = $("confirm");
  }

  confirm({ title, text, extra = [], verb, check, order, done }) {
    const error = el("p", { class: "error", role: "alert" });
    const go = el("button", { type: "button", class: "primary", id: "confirm-go", text: verb });
    const cancel = el("button", { type: "button", id: "confirm-cancel", autofocus: true, text: "Cancel" });
    const fail = (why) => {
      this.onError(why);
      setText(error, why.message);
    };
    cancel.addEventListener("click", () => this.dialog.close());
    go.addEventListener("click", async () => {
      go.disabled = true;
      setText(error, "");
      try {
        const answer = await ask(order.method, order.path, order.body?.() ?? {});
        this.dialog.close();
        toast(done(answer));
      } catch (why) {
        fail(why);
        go.disabled = false;
      }
    });
    // The answer of an earlier dry run may come after that of a later one, which alone is about what is chosen.
    let newest = 0;
    const dryRun = async () => {
      newest += 1;
      const own = newest;
      go.disabled = true;
      setText(error, "");
      try {
        await ask("POST", check.path, check.body());
        if (own === newest) go.disabled = false;
      } catch (why) {
        if (own === newest) fail(why);
        else this.onError(why);
      }
    };
    if (check) {
      check.again?.addEventListener("change", dryRun);
      dryRun();
    }
    this.dialog.replaceChildren(
      el("h2", { id: "confirm-title", text: title }),
      ...text.map((sentence) => el("p", { text: sentence })),
      extra.length ? el("p", { class: "extra" }, ...extra) : "",
      error,
      el("div", { class: "actions end" }, cancel, go),
    );
    this.dialog.showModal();
  }
}
