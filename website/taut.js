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
// Pictures for dark pages follow the colours of the page, which a reader may have switched, and not those of the system.
const DARK = "(prefers-color-scheme: dark)";
const sources = [...document.querySelectorAll("source")].filter(one => one.media.includes(DARK)).map(one => [one, one.media]);
const follow = () => {
  const dark = document.body.dataset.mdColorScheme === "slate";
  for (const [source, media] of sources) source.media = media.replace(DARK, dark ? "(min-width: 0px)" : "(max-width: 0px)");
};
new MutationObserver(follow).observe(document.body, {attributes: true, attributeFilter: ["data-md-color-scheme"]});
follow();
