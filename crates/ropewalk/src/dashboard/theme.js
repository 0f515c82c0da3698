// The choice of colours, before anything is drawn. Owns `data-theme` of the document and where the choice is kept.
"use strict";
(() => {
  const KEY = "ropewalk.theme";
  const known = (name) => (name === "light" || name === "dark" ? name : "auto");
  const read = () => {
    try {
      return known(localStorage.getItem(KEY));
    } catch {
      return "auto";
    }
  };
  const apply = (name) => {
    document.documentElement.dataset.theme = known(name);
  };
  apply(read());
  window.ropewalkTheme = {
    read,
    set(name) {
      apply(name);
      try {
        localStorage.setItem(KEY, known(name));
      } catch {
        // A browser that keeps nothing shows the choice until the page is left.
      }
    },
  };
})();
