// Opens a report in headless Chromium by Playwright, with all of the network shut off, uses it as people do, and prints what was
// seen as JSON. Arguments: the page's file, a folder for screenshots.
"use strict";
const path = require("path");
const {chromium} = require("playwright-core");

const [page_file, shots] = process.argv.slice(2);
const SIZES = [["phone", 390, 844], ["desktop", 1440, 900]];

async function look(browser, size, width, height, scheme) {
	const context = await browser.newContext({viewport: {width, height}, colorScheme: scheme, offline: true});
	const page = await context.newPage();
	const seen = {size, scheme, requests: [], errors: [], dialogs: 0};
	page.on("request", request => seen.requests.push(request.url()));
	page.on("dialog", dialog => { seen.dialogs++; dialog.dismiss(); });
	page.on("pageerror", error => seen.errors.push(String(error)));
	page.on("console", message => seen.errors.push(message.text()));
	await page.goto("file://" + path.resolve(page_file));
	seen.pwned = await page.evaluate(() => "pwned" in window);
	seen.width = await page.evaluate(() => document.documentElement.scrollWidth);
	seen.scripts = await page.evaluate(() => document.scripts.length);
	seen.foreign = await page.evaluate(() =>
		document.querySelectorAll("img,iframe,object,embed,link,form,a[href]:not([href^='#']),[style],[onerror],[onmouseover]").length);
	seen.text = await page.evaluate(() => document.getElementById("main").textContent);
	seen.ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
	await page.screenshot({path: path.join(shots, `${size}-${scheme}.png`)});
	if (size === "desktop" && scheme === "light")
		await use(page, seen);
	await context.close();
	return seen;
}

// Sorting by pointer and by keyboard, filtering, and what a printer gets.
async function use(page, seen) {
	const column = (label, n) => page.evaluate(([l, index]) => {
		const table = document.getElementById(l).parentElement.querySelector("table");
		return Array.from(table.tBodies[0].rows).map(row => row.cells[index].dataset.v ?? row.cells[index].textContent);
	}, [label, n]);
	const head = (n) => page.locator("section[aria-labelledby=h-hosts] th").nth(n);
	seen.hosts_by_events = (await column("h-hosts", 1)).map(Number);
	await head(0).locator("button").click();
	seen.hosts_by_name = await column("h-hosts", 0);
	seen.sorted_name = await head(0).getAttribute("aria-sort");
	await head(6).locator("button").focus();
	await page.keyboard.press("Enter");
	seen.hosts_by_out = (await column("h-hosts", 6)).map(Number);
	await page.keyboard.press("Space");
	seen.hosts_by_out_rising = (await column("h-hosts", 6)).map(Number);
	seen.focused = await page.evaluate(() => document.activeElement.textContent);
	await page.fill("#filter", "files.pkg.example");
	seen.filtered = await page.evaluate(() =>
		Array.from(document.querySelectorAll("table.filtered tbody tr")).filter(row => !row.hidden).map(row => row.textContent));
	await page.fill("#filter", "");
	await page.emulateMedia({media: "print"});
	seen.print_rows = await page.evaluate(() =>
		Array.from(document.querySelectorAll("table.filtered tbody tr")).every(row => row.offsetHeight > 0));
	seen.print_ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
}

(async () => {
	const browser = await chromium.launch({executablePath: process.env.CHROMIUM, args: ["--no-sandbox"]});
	const seen = [];
	for (const [size, width, height] of SIZES)
		for (const scheme of ["light", "dark"])
			seen.push(await look(browser, size, width, height, scheme));
	await browser.close();
	process.stdout.write(JSON.stringify(seen));
})().catch(error => { console.error(error); process.exit(1); });
