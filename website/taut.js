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
