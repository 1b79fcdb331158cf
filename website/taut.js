// The filter of the table of learners: a row is shown if it contains all words.
document.addEventListener("input", event => {
  const field = event.target;
  if (!field.matches(".filter input, .filter select")) return;
  const box = field.closest(".filter");
  const words = [...box.querySelectorAll("input, select")]
    .map(one => one.value.toLowerCase()).join(" ").split(/\s+/).filter(Boolean);
  const rows = [...document.querySelectorAll("table.learners tbody tr, .learners table tbody tr")];
  let shown = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every(word => text.includes(word));
    shown += row.hidden ? 0 : 1;
  }
  box.querySelector("output").textContent = `${shown} of ${rows.length}`;
});
// Search splits names at hyphens. A query that is the name of a learner shows exactly its page first.
const list = document.querySelector(".md-search-result__list");
const query = document.querySelector(".md-search__input");
if (list && query) new MutationObserver(() => {
  const name = query.value.trim().toLowerCase().replace(/\s+/g, "-");
  const item = [...list.children].find(one => one.querySelector(`a[href*="/learners/${CSS.escape(name)}/"]`));
  if (item && item !== list.firstElementChild) list.prepend(item);
}).observe(list, {childList: true});
