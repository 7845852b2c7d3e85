// Prints what a page shows in headless Chromium, driven by Playwright. Its own sandbox needs namespaces, which ours does not give.
const { chromium } = require('playwright-core')

;(async () => {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox'] })
  try {
    const page = await browser.newPage()
    const answer = await page.goto(process.argv[2], { timeout: 20000 })
    console.log(await page.textContent('body'))
    process.exitCode = answer.ok() ? 0 : 1
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  } finally {
    await browser.close()
  }
})()
