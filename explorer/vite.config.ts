// Builds the page into one file without a request: src/unbounded/explorer/template.html.

import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'

const TEMPLATE = resolve(import.meta.dirname, '../src/unbounded/explorer/template.html')

const hash = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

/** Puts script and style into the page, and their hashes into a policy that forbids every request. */
function oneFile(): Plugin {
  return {
    name: 'one-file',
    enforce: 'post',
    generateBundle(_, bundle) {
      let script = ''
      let style = ''
      for (const [name, file] of Object.entries(bundle)) {
        if (file.type === 'chunk') script += file.code
        else if (name.endsWith('.css')) style += String(file.source)
        if (name !== 'index.html') delete bundle[name]
      }
      // Nothing in the script may look like its end.
      script = script.replaceAll('</script', '<\\/script').trim()
      style = style.trim()
      const page = bundle['index.html']
      if (page?.type !== 'asset') throw new Error('index.html was not built')
      const policy =
        `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; ` +
        `img-src data:; base-uri 'none'; form-action 'none'`
      const html = String(page.source)
        .replace(/\s*<script type="module"[^>]*><\/script>/, '')
        .replace(/\s*<link rel="stylesheet"[^>]*>/, '')
        .replace('{policy}', policy)
        .replace('</head>', () => `<style>${style}</style>\n</head>`)
        .replace('</body>', () => `<script type="module">${script}</script>\n</body>`)
      page.source = html
      writeFileSync(TEMPLATE, html)
    },
  }
}

export default defineConfig({
  base: './',
  build: { target: 'es2022', modulePreload: false, cssCodeSplit: false, assetsInlineLimit: 1e9, reportCompressedSize: false },
  plugins: [oneFile()],
  // The tests in browser/ are node's own.
  test: { include: ['tests/*.test.ts'] },
})
