import './style.css'
import { readPage } from './data.ts'
import { App } from './page/app.ts'
import { el } from './page/dom.ts'

const root = document.getElementById('page')!
try {
  new App(readPage(document.getElementById('unbounded-data')?.textContent ?? ''), root)
} catch (error) {
  root.replaceChildren(el('p', { class: 'alert', role: 'alert' }, error instanceof Error ? error.message : String(error)))
}
