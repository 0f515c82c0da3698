// The page as a whole: signing in, the connection and its loss, and when what is drawn.
//
// A session lives from signing in to signing out. While it lives, one loop holds the stream: it connects, reads samples, and
// after a loss waits and connects again. 401 from anywhere ends the session with the reason.

import { $, el, icon, setText, show } from "./dom.js";
import { ApiError, ask, stream, token } from "./api.js";
import { clock, duration } from "./format.js";
import { Model } from "./model.js";
import { Overview } from "./overview.js";
import { Servers } from "./servers.js";
import { Clients } from "./clients.js";
import { Top } from "./top.js";
import { Events } from "./events.js";
import { Orders, closeAll } from "./dialogs.js";

/** Pauses between tries to connect. */
const RETRY_MS_MIN = 1000;
const RETRY_MS_MAX = 30_000;
/** Pause between two looks whether the token is still good: a stream that runs does not tell. */
const TOKEN_LOOK_MS = 60_000;

let session = null;

// Signing in and out.

function signOut(why = "") {
  session?.stop.abort();
  session = null;
  token.forget();
  closeAll();
  show($("page"), false);
  show($("lost"), false);
  document.body.classList.remove("stale");
  show($("sign-in"), true);
  document.title = "Sign in – Ropewalk";
  $("token").value = "";
  setText($("sign-in-error"), why);
  $("token").focus();
}

async function signIn(value) {
  const button = $("sign-in-button");
  button.disabled = true;
  setText($("sign-in-error"), "");
  token.keep(value);
  try {
    begin(await ask("GET", "/session"));
  } catch (error) {
    signOut(error.status === 401 ? `This token is not accepted. ${error.message}` : `Signing in failed. ${error.message}`);
  } finally {
    button.disabled = false;
  }
}

/** Goes on with the token of this tab after the page was loaded again; waits for a server that is not there. */
async function resume() {
  const own = { stop: new AbortController(), wait: RETRY_MS_MIN };
  session = own;
  while (!own.stop.signal.aborted) {
    try {
      begin(await ask("GET", "/session"));
      return;
    } catch (error) {
      if (endsSession(error)) return;
      await pause(own, error);
    }
  }
}

/** The reason that ends a session, if it is one. */
function endsSession(error) {
  if (!(error instanceof ApiError) || error.status !== 401 || !session) return false;
  signOut(`You were signed out. ${error.message}`);
  return true;
}

/** Builds the page after sign-in. */
function begin({ name, role, expires_at: expiresAt }) {
  const mayOrder = role === "operator" || role === "admin";
  const orders = mayOrder ? new Orders(endsSession) : null;
  const model = new Model();
  const stop = new AbortController();
  show($("sign-in"), false);
  show($("page"), true);
  session = {
    stop,
    model,
    overview: new Overview(model, stop.signal),
    servers: new Servers(model, orders),
    clients: new Clients(orders, endsSession),
    top: new Top(endsSession),
    events: new Events(),
    tokenLookedAt: Date.now(),
    wait: RETRY_MS_MIN,
    caller: { name, role, expiresAt },
  };
  setText($("who"), `${name} (${role})`);
  tellCaller(session);
  $("main").focus({ preventScroll: true });
  hold(session);
}

/** Says who is signed in, and for how long yet. */
function tellCaller({ caller: { name, role, expiresAt } }) {
  const ends = expiresAt ? `The token ends in ${duration(expiresAt - Date.now() / 1000)}.` : "The token does not end.";
  if ($("who").title !== ends) $("who").title = ends;
  setText($("footer"), `Signed in as ${name}, ${role}. ${ends}`);
}

// The connection.

/** Holds the stream until the session ends. */
async function hold(own) {
  const { signal } = own.stop;
  while (!signal.aborted) {
    try {
      await catchUp(own);
      await stream(signal, own.events.newest(), (name, data) => heard(own, name, data));
    } catch (error) {
      if (signal.aborted || endsSession(error)) return;
      await pause(own, error);
    }
  }
}

/** What the stream does not bring: the state at once, and the events until now. */
async function catchUp(own) {
  const [status, health] = await Promise.all([ask("GET", "/status"), ask("GET", "/health")]);
  if (own.stop.signal.aborted) return;
  const isNew = own.model.process !== `${status.pid} ${status.boot}`;
  if (isNew) own.top.again();
  if (own.model.status === null) {
    // Its time is not the server's; the first sample sets it.
    own.model.status = status;
    own.model.health = health;
  }
  draw(own);
  own.clients.look(true);
  await own.events.load();
}

function heard(own, name, data) {
  if (own.stop.signal.aborted) return;
  if (name === "log") own.events.take(data);
  // What is gone is not told again; the rest is read anew.
  if (name === "missed") own.events.load().catch(() => {});
  if (name !== "sample") return;
  own.wait = RETRY_MS_MIN;
  if (!$("lost").hidden) connected(own);
  own.model.take(data);
  draw(own);
  own.clients.look();
  own.top.look();
  lookAtToken(own);
}

async function lookAtToken(own) {
  if (Date.now() - own.tokenLookedAt < TOKEN_LOOK_MS) return;
  own.tokenLookedAt = Date.now();
  try {
    await ask("GET", "/session");
  } catch (error) {
    endsSession(error);
  }
}

/** Tells of the loss and waits, longer each time, until it is time for the next try. */
function pause(own, error) {
  const { signal } = own.stop;
  const wait = own.wait * (0.8 + 0.4 * Math.random());
  own.wait = Math.min(RETRY_MS_MAX, own.wait * 2);
  const until = Date.now() + wait;
  if ($("lost").hidden) {
    setText($("lost-text"), `No connection to the metadata server since ${clock(Date.now())}. ${error.message}`);
    show($("lost"), true);
    document.body.classList.add("stale");
    const chip = $("state-chip");
    chip.dataset.level = "unknown";
    chip.replaceChildren(icon("unknown"), el("span", { text: "not connected" }));
    document.title = "Not connected – Ropewalk";
  }
  return new Promise((resolve) => {
    const end = () => {
      clearInterval(timer);
      $("lost-retry").onclick = null;
      window.removeEventListener("online", end);
      signal.removeEventListener("abort", end);
      setText($("lost-next"), "Trying now.");
      resolve();
    };
    const tick = () => {
      const left = until - Date.now();
      if (left <= 0) end();
      else setText($("lost-next"), `Next try in ${Math.ceil(left / 1000)} s.`);
    };
    const timer = setInterval(tick, 250);
    $("lost-retry").onclick = end;
    window.addEventListener("online", end);
    signal.addEventListener("abort", end);
    tick();
  });
}

function connected(own) {
  show($("lost"), false);
  document.body.classList.remove("stale");
  own.overview.forget();
}

// Drawing.

function draw(own) {
  // Nobody sees it; what is drawn later has it all.
  if (document.hidden || own.stop.signal.aborted) return;
  tellCaller(own);
  own.overview.draw();
  own.servers.draw();
  if (!own.isDrawn) {
    own.isDrawn = true;
    performance.mark("drawn");
  }
}

document.addEventListener("visibilitychange", () => session && draw(session));
$("sign-in-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const value = $("token").value.trim();
  if (value) signIn(value);
  else setText($("sign-in-error"), "Enter a token.");
});
$("sign-out").addEventListener("click", () => signOut());
$("theme").value = window.ropewalkTheme.read();
$("theme").addEventListener("change", () => window.ropewalkTheme.set($("theme").value));

// An address may bring a token, as that of `ropewalk up --dashboard` does. It is kept in the tab, and leaves the address.
const brought = location.hash.match(/^#token=(rwa1\.[a-z2-7]+)$/);
if (brought) {
  token.keep(brought[1]);
  history.replaceState(null, "", location.pathname);
}
if (token.read()) resume();
else signOut();
