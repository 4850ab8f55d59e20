// Pages for the tests: the built template with the machines of the package, or with other data.

import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const PACKAGE = resolve(import.meta.dirname, '../../src/unbounded/explorer')

export function machines() {
  return JSON.parse(readFileSync(join(PACKAGE, 'machines.json'), 'utf8'))
}

/** Write a page as Python does, and give its address. */
export function pageOf(runs, title = 'Machines') {
  return written(JSON.stringify({ format: 'unbounded-page', version: 1, title, runs }))
}

/** A page whose data is any text. */
export function written(text) {
  const template = readFileSync(join(PACKAGE, 'template.html'), 'utf8')
  const escaped = text.replaceAll('<', '\\u003c').replaceAll('>', '\\u003e').replaceAll('&', '\\u0026')
  const file = join(mkdtempSync(join(tmpdir(), 'unbounded-')), 'page.html')
  writeFileSync(file, template.replace('{data}', () => escaped))
  return pathToFileURL(file).href
}
