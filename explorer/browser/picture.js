// A picture of a page at a moment, for the README: `npm run picture -- PAGE.html '#input=...' OUT.png`.

import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { launch, openFile } from './browser.js'

const [file, moment, out] = process.argv.slice(2)
const browser = await launch()
const options = { reducedMotion: 'reduce', viewport: { width: 900, height: 900 }, deviceScaleFactor: 2 }
const { page } = await openFile(browser, `${pathToFileURL(resolve(file)).href}${moment}`, options)
const memory = await page.locator('.memory').boundingBox()
const clip = { x: 0, y: 0, width: 900, height: Math.ceil(memory.y + memory.height + 12) }
await page.screenshot({ path: out, clip })
await browser.close()
