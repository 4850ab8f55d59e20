// The gates of a step, changed by hand; the rest of the run follows.

import type { Head } from '../data.ts'
import { isPlainGate, sizeOf } from '../machine/heads.ts'
import { el, short, write } from './dom.ts'
import type { Session } from './session.ts'
import { MOVES } from './views/rolling.ts'
import { ACTIONS } from './views/superposition.ts'


export class Editor {
  readonly element: HTMLElement
  private readonly session: Session
  private readonly updates: ((step: number) => void)[] = []
  private readonly forget: HTMLButtonElement
  private step = 0

  constructor(session: Session, changed: () => void) {
    this.session = session
    const controls: HTMLElement[] = []
    const memory = session.run.model.memory
    for (const head of memory?.heads ?? []) {
      // Gates, and the actions of stacks, lists and tapes.
      if (isPlainGate(head)) {
        for (let place = 0; place < sizeOf(head); place++) controls.push(this.slider(head, place, changed))
      }
      if (head.gate && head.name === 'action') controls.push(...this.choices(head, (memory!.kind === 'rolling_tape' ? MOVES : ACTIONS[memory!.kind] ?? []).map((style) => style.name), changed))
    }
    this.forget = el('button', { type: 'button', click: () => { session.forget(); changed() } }, 'Undo the changes')
    this.element = el(
      'fieldset', { class: controls.length <= 6 ? 'edit' : controls[0].querySelector('select') ? 'edit many' : 'edit sliders', 'data-part': 'edit' }, el('legend', {}, 'Change this step by hand'), el('p', { class: 'faint' }, 'Set a value and play on: the rest of the run is computed again.'), ...controls, this.forget,
    )
    this.element.hidden = controls.length === 0 || !session.isLive
  }

  /** What is changed from now on is this step. */
  at(step: number): void {
    this.step = step
  }

  /** Show the values of the step. */
  show(): void {
    for (const update of this.updates) update(this.step)
    this.forget.hidden = !this.session.edited
  }

  private slider(head: Head, place: number, changed: () => void): HTMLElement {
    const { name } = head
    const text = name.replaceAll('_', ' ')
    const output = el('output')
    const input = el('input', { type: 'range', min: 0, max: 1, step: 0.01 })
    input.addEventListener('input', () => {
      this.session.edit(this.step, name, place, Number(input.value))
      changed()
    })
    this.updates.push((step) => {
      const value = this.session.steps[step]?.instruction?.[name]?.[place] ?? 0
      if (input.value !== String(value)) input.value = String(value)
      write(output, short(value))
    })
    return el('label', {}, el('span', {}, sizeOf(head) > 1 ? `${text} ${place + 1}` : text), input, output)
  }

  /** Of each stack or list the action that is taken to its full weight. */
  private choices(head: Head, names: string[], changed: () => void): HTMLElement[] {
    const [count, actions] = head.shape
    const memoryWord = names.includes('INSERT') ? 'list' : 'stack'
    return Array.from({ length: count }, (_, place) => {
      const options = names.slice(0, actions).map((name, action) => el('option', { value: action }, name))
      const select = el('select', {}, el('option', { value: '' }, 'network'), ...options)
      select.addEventListener('change', () => {
        if (select.value === '') return
        for (let action = 0; action < actions; action++) {
          const weight = action === Number(select.value) ? 1 : 0
          this.session.edit(this.step, head.name, place * actions + action, weight)
        }
        changed()
      })
      this.updates.push((step) => {
        const own = this.session.edits[step]?.[head.name]
        const chosen = names.findIndex((_, action) => own?.[place * actions + action] === 1)
        select.value = chosen < 0 ? '' : String(chosen)
      })
      return el('label', {}, count > 1 ? `${memoryWord} ${place + 1}` : 'action', select)
    })
  }
}
