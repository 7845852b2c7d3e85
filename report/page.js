"use strict";
(() => {
	const value = (row, column) => {
		const cell = row.cells[column];
		return "v" in cell.dataset ? Number(cell.dataset.v) : cell.textContent;
	};
	const compare = (a, b) => typeof a === "number" ? a - b : a.localeCompare(b, "en", {numeric: true});

	function sort(table, button) {
		const head = button.closest("th");
		const numeric = head.classList.contains("n");
		const now = head.getAttribute("aria-sort");
		const rising = now ? now === "descending" : !numeric;
		const column = head.cellIndex;
		for (const other of table.tHead.rows[0].cells)
			other.removeAttribute("aria-sort");
		head.setAttribute("aria-sort", rising ? "ascending" : "descending");
		const body = table.tBodies[0];
		const rows = Array.from(body.rows);
		rows.sort((a, b) => compare(value(a, column), value(b, column)) * (rising ? 1 : -1));
		body.append(...rows);
	}

	for (const table of document.querySelectorAll("table.sortable")) {
		for (const head of table.tHead.rows[0].cells) {
			const button = document.createElement("button");
			button.type = "button";
			button.append(...head.childNodes);
			head.append(button);
			button.addEventListener("click", () => sort(table, button));
		}
	}

	/* The first rows are enough to begin with; the style hides the others of a table that is short. */
	for (const table of document.querySelectorAll("table.sortable")) {
		const count = table.tBodies[0].rows.length;
		if (count <= 20)
			continue;
		const more = document.createElement("button");
		more.type = "button";
		more.className = "more";
		const show = () => {
			const short = table.classList.toggle("short");
			more.textContent = short ? `Show all ${count} rows` : "Show fewer rows";
			more.setAttribute("aria-expanded", String(!short));
		};
		more.addEventListener("click", show);
		show();
		table.after(more);
	}

	const filter = document.getElementById("filter");
	const found = document.getElementById("found");
	filter.parentElement.hidden = false;
	filter.addEventListener("input", () => {
		const wanted = filter.value.toLowerCase();
		let shown = 0;
		document.body.classList.toggle("filtering", wanted !== "");
		for (const row of document.querySelectorAll("table.filtered tbody tr")) {
			row.hidden = !row.textContent.toLowerCase().includes(wanted);
			shown += row.hidden ? 0 : 1;
		}
		found.textContent = wanted === "" ? "" : `${shown} rows`;
	});
})();
