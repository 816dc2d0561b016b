/* The report: opens what is folded where it is needed, copies the command, changes between light and dark. */
"use strict";
(() => {
  function reveal() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = target && target.closest("details");
    if (folded && !folded.open) { folded.open = true; target.scrollIntoView(); }
  }
  window.addEventListener("hashchange", reveal);
  reveal();

  if (/\/latest\/[^/]*$/.test(location.pathname)) {
    for (const one of document.querySelectorAll("a[data-from-latest]")) one.href = one.dataset.fromLatest;
  }

  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const one of closed) one.open = true;
  });
  window.addEventListener("afterprint", () => { for (const one of closed) one.open = false; });

  for (const button of document.querySelectorAll(".command .copy")) {
    button.addEventListener("click", async () => {
      const command = button.parentElement.querySelector("pre");
      try {
        await navigator.clipboard.writeText(command.textContent);
      } catch {
        const selection = getSelection();
        selection.selectAllChildren(command);
        document.execCommand("copy");
        selection.removeAllRanges();
      }
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
  }

  const themes = [undefined, "dark", "light"];
  for (const button of document.querySelectorAll("button.theme")) {
    button.addEventListener("click", () => {
      const root = document.documentElement;
      const next = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
      if (next) root.dataset.theme = next; else delete root.dataset.theme;
      button.lastElementChild.textContent = next || "theme";
    });
  }
})();
