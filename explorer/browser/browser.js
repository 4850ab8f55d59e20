// Debian's Chromium without a screen and without a network, for the tests in this folder.

import { chromium } from 'playwright-core'

const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync',
]

export async function launch() {
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium'
  return chromium.launch({ executablePath, args: FLAGS })
}

/** A page in which every request but that for the file itself fails, and is kept. */
export async function openFile(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options })
  const page = await context.newPage()
  const faults = []
  await page.route('**/*', (route) => {
    if (route.request().url().split('#')[0] === url.split('#')[0]) return route.continue()
    faults.push(`request: ${route.request().url()}`)
    return route.abort()
  })
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`))
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) faults.push(`console: ${message.text()}`)
  })
  await page.goto(url)
  return { page, context, faults }
}
