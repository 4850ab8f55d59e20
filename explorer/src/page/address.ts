// The moment that a page shows, in its address: run, input, step and edits.

import type { Edits } from '../machine/run.ts'

export interface Moment {
  run: number
  /** A second run to compare with. */
  second: number | null
  /** What was typed; null where a stored sample is shown. */
  typed: string | null
  sample: number
  step: number | null
  edits: Edits
  /** Whether steps that are not played yet are shown. */
  future: boolean
}

export function readAddress(hash: string): Moment {
  const parameters = new URLSearchParams(hash.replace(/^#/, ''))
  const number = (name: string): number | null => {
    const value = Number.parseInt(parameters.get(name) ?? '', 10)
    return Number.isFinite(value) && value >= 0 ? value : null
  }
  return {
    run: number('run') ?? 0,
    second: number('second'),
    typed: parameters.get('input'),
    sample: number('sample') ?? 0,
    step: number('step'),
    edits: readEdits(parameters.get('edits') ?? ''),
    future: parameters.get('future') === '1',
  }
}

export function writeAddress(moment: Moment): string {
  const parameters = new URLSearchParams()
  if (moment.run) parameters.set('run', String(moment.run))
  if (moment.second !== null) parameters.set('second', String(moment.second))
  if (moment.typed !== null) parameters.set('input', moment.typed)
  else parameters.set('sample', String(moment.sample))
  if (moment.step !== null) parameters.set('step', String(moment.step))
  const edits = writeEdits(moment.edits)
  if (edits) parameters.set('edits', edits)
  if (moment.future) parameters.set('future', '1')
  return `#${parameters}`
}

/** "3.push.0=0.5,4.pop.0=1": step, head, place and value of each edit. */
function writeEdits(edits: Edits): string {
  const parts: string[] = []
  for (const [step, heads] of Object.entries(edits)) {
    for (const [head, places] of Object.entries(heads)) {
      for (const [place, value] of Object.entries(places)) parts.push(`${step}.${head}.${place}=${value}`)
    }
  }
  return parts.join(',')
}

function readEdits(text: string): Edits {
  const edits: Edits = {}
  for (const part of text.split(',')) {
    const match = /^(\d+)\.(\w+)\.(\d+)=(-?[\d.]+(?:e-?\d+)?)$/.exec(part)
    if (!match) continue
    const [, step, head, place, value] = match
    const heads = (edits[Number(step)] ??= {})
    ;(heads[head] ??= {})[Number(place)] = Number(value)
  }
  return edits
}
