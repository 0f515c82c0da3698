// The busiest directories and clients. Owns this section of the page.

import { $, Table, setText, show } from "./dom.js";
import { ask } from "./api.js";
import { duration, perSecond, rate } from "./format.js";

/** Pause between two looks. */
const LOOK_MS = 5000;
/** Rows of each kind; on a phone each is a card. */
const ROWS_MAX = matchMedia("(max-width: 760px)").matches ? 5 : 10;

/** It is gone where the server does not tell of them. */
export class Top {
  constructor(onError) {
    this.onError = onError;
    this.isThere = true;
    this.isLooking = false;
    this.lookedAt = 0;
    this.clients = new Table($("top-clients"), {
      caption: "Busiest clients",
      empty: "Nobody is busy.",
      key: (row) => row.id ?? row.owner,
      columns: [
        { label: "Client", text: (row) => row.owner || `${row.id} (gone)` },
        { label: "Protocol", text: (row) => row.protocol },
        { label: "Operations", number: true, text: (row) => perSecond(row.operations_per_s) },
        { label: "Read", number: true, text: (row) => rate(row.read_bytes_per_s) },
        { label: "Written", number: true, text: (row) => rate(row.written_bytes_per_s) },
      ],
    });
    this.directories = new Table($("top-directories"), {
      caption: "Busiest directories",
      empty: "No directory is busy.",
      key: (row) => row.inode,
      columns: [
        { label: "Directory", text: (row) => row.path ?? `inode ${row.inode}` },
        { label: "Operations", number: true, text: (row) => perSecond(row.operations_per_s) },
      ],
    });
  }

  /** The server may have learned it when it was started again. */
  again() {
    this.isThere = true;
  }

  async look() {
    const now = Date.now();
    if (!this.isThere || this.isLooking || now - this.lookedAt < LOOK_MS) return;
    this.lookedAt = now;
    this.isLooking = true;
    try {
      const top = await ask("GET", `/top?limit=${ROWS_MAX}`);
      this.clients.update(top.clients);
      this.directories.update(top.directories);
      const about = `Means of the last ${duration(top.seconds)}, guessed from one operation in ${top.sampled_one_in}. `;
      setText($("top-about"), `${about}Bytes are those through the metadata server; data servers do not count them by client.`);
      show($("top"), true);
    } catch (error) {
      if (error.status === 404) {
        this.isThere = false;
        show($("top"), false);
      } else {
        this.onError(error);
      }
    } finally {
      this.isLooking = false;
    }
  }
}
