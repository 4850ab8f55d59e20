// Debian's Chromium without a screen and without a network, for the tests in this folder.

import { execFileSync } from 'node:child_process'
import { chromium } from 'playwright-core'

const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync',
]

export const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium'

/** Start it; with `core`, all of it on one core of the machine. */
export async function launch(core) {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS })
  if (core !== undefined) {
    const client = await browser.newBrowserCDPSession()
    const { processInfo } = await client.send('SystemInfo.getProcessInfo')
    for (const { id } of processInfo) execFileSync('taskset', ['-a', '-p', '-c', core, String(id)])
  }
  return browser
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
