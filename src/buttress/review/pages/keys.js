// Keys: k keep, c correct, d drop, u unsure, z undo; in the table a ticks all rows of the page, e corrects each.
const typing = (element) => element.matches("input:not([type=checkbox]), select, textarea");
const press = (selector) => { const found = document.querySelector(selector); if (found) found.click(); };
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.id === "value" && event.key === "Enter") {
    event.preventDefault();
    press("button[value=correct]");
  } else if (event.key === "Escape" && typing(event.target)) {
    event.target.blur();
  } else if (!typing(event.target)) {
    const action = { k: "keep", d: "drop", u: "unsure", e: "expected" }[event.key];
    if (action) press(`button[value=${action}]`);
    else if (event.key === "z") press("#undo");
    else if (event.key === "a") document.querySelectorAll("input[name=place]").forEach((box) => { box.checked = true; });
    else if (event.key === "c") { const field = document.getElementById("value"); if (field) field.focus(); }
    else return;
    event.preventDefault();
  }
});
// a decision is sent once, however often a key is pressed
addEventListener("submit", (event) => {
  if (document.body.dataset.sent) event.preventDefault();
  document.body.dataset.sent = "1";
});
addEventListener("pageshow", () => { delete document.body.dataset.sent; });
