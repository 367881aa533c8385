"use strict";
// The heat map: rows are filtered by name and category, and sorted by the column whose heading is clicked.
{
  const table = document.querySelector(".heat");
  if (table) {
    const body = table.tBodies[0], rows = [...body.rows], headings = [...table.tHead.rows[0].cells];
    const name = document.getElementById("filter-name"), category = document.getElementById("filter-category");
    const count = document.getElementById("filter-count");
    const filter = () => {
      const part = name.value.trim().toLowerCase();
      for (const row of rows) {
        const fits = row.cells[0].textContent.toLowerCase().includes(part);
        row.hidden = !(fits && (!category.value || row.dataset.category === category.value));
      }
      const shown = rows.filter(row => !row.hidden).length;
      count.textContent = shown === rows.length ? "" : `${shown} of ${rows.length} algorithms`;
    };
    const sort = column => {
      const text = column === 0, now = headings[column].getAttribute("aria-sort");
      // The first click shows names from A to Z and the highest scores first.
      const ascending = text ? now !== "ascending" : now === "descending";
      for (const heading of headings) heading.setAttribute("aria-sort", "none");
      headings[column].setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const value = row => row.cells[column].dataset.sort;
      rows.sort((a, b) => (text ? value(a).localeCompare(value(b)) : value(a) - value(b)) * (ascending ? 1 : -1));
      body.append(...rows);
    };
    name.addEventListener("input", filter);
    category.addEventListener("change", filter);
    headings.forEach((heading, column) => heading.firstElementChild.addEventListener("click", () => sort(column)));
  }
}
