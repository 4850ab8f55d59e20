// The page: which run, which input, and the moment that is shown; all of it in the address.

import type { PageData, RunData } from '../data.ts'
import { Model } from '../machine/model.ts'
import { type Plan, planOf, planOfSample, readSymbols, sourceOf, writeSymbols } from '../machine/plan.ts'
import { Replay } from '../machine/replay.ts'
import { drawn } from '../machine/rules/index.ts'
import { type Moment, readAddress, writeAddress } from './address.ts'
import { onSchemeChange } from './colours.ts'
import { el, shown } from './dom.ts'
import { courseFigures } from './course.ts'
import { Player } from './player.ts'
import { Session } from './session.ts'
import { Setup } from './setup.ts'
import { Stage } from './stage.ts'
import { trainingTab } from './training.ts'

export class App {
  private readonly data: PageData
  private readonly setup: Setup
  private readonly player: Player
  private readonly stages = el('div', { class: 'stages' })
  private readonly alert = el('p', { class: 'alert', role: 'alert', hidden: true })
  private readonly models = new Map<number, Model>()
  private shownStages: Stage[] = []
  private moment: Moment
  private waiting = 0

  constructor(data: PageData, root: HTMLElement) {
    this.data = data
    this.moment = readAddress(location.hash)
    this.player = new Player((step) => this.show(step))
    this.setup = new Setup(data, {
      run: (run) => {
        // Runs that read the same symbols are seen on the same input, as those of a course are.
        const same = String(data.runs[run].task.inputs) === String(data.runs[this.moment.run].task.inputs)
        const input = same ? {} : { typed: null, sample: 0, step: null }
        this.start({ ...this.moment, run, ...input, edits: {} })
      },
      beside: (beside) => this.start({ ...this.moment, beside, edits: {} }),
      type: (typed) => this.start({ ...this.moment, typed, step: null, edits: {} }),
      draw: (length) => this.draw(length),
      sample: (sample) => this.start({ ...this.moment, typed: null, sample, step: null, edits: {} }),
    })
    const watch = el('section', { 'aria-label': 'watch' }, this.setup.element, this.alert, this.player.element, this.stages)
    const training = trainingTab(data)
    const tabs = training ? this.tabs(watch, training) : null
    root.replaceChildren(el('h1', {}, data.title), ...(tabs ? [tabs] : []), watch, ...(training ? [training] : []), help())
    document.title = `${data.title} – unbounded`
    document.addEventListener('keydown', (event) => this.pressed(event))
    window.addEventListener('hashchange', () => {
      if (location.hash !== this.address()) this.start(readAddress(location.hash))
    })
    onSchemeChange(() => {
      for (const stage of this.shownStages) stage.redraw()
      this.player.seek(this.player.step)
    })
    const fresh = this.moment.step === null
    this.start(this.moment)
    if (fresh && !matchMedia('(prefers-reduced-motion: reduce)').matches) this.player.play()
  }

  /** Begin with a moment; what is wrong with it is shown, and the page stays as it was. */
  private start(moment: Moment): void {
    this.player.pause()
    const inRange = (place: number | null): number | null =>
      place !== null && place < this.data.runs.length ? place : null
    const next = { ...moment, run: inRange(moment.run) ?? 0, beside: inRange(moment.beside) }
    const places = next.beside === null ? [next.run] : [next.run, next.beside]
    try {
      const sessions = places.map((place) => this.session(place, next))
      sessions[0].restart(sessions[0].plan, next.edits)
      this.say('')
      this.moment = next
      this.stage(sessions)
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error))
      if (this.shownStages.length === 0 && moment.typed !== null) this.start({ ...moment, typed: null })
    }
    this.setup.show(this.moment, this.typedText())
  }

  private session(place: number, moment: Moment): Session {
    const run = this.data.runs[place]
    if (!run.weights) {
      const replay = new Replay(run, moment.sample)
      const targets = replay.steps.map((step) => step.target)
      return new Session(run, { given: [], then: 'stop', targets, most: targets.length, prompt: targets.length, why: '' }, replay)
    }
    let model = this.models.get(place)
    if (!model) {
      model = new Model(run)
      this.models.set(place, model)
    }
    return new Session(run, this.plan(run, place, moment), model)
  }

  private plan(run: RunData, place: number, moment: Moment): Plan {
    if (moment.typed !== null) return planOf(run.task, readSymbols(run.task, moment.typed))
    const first = this.data.runs[moment.run]
    const sample = first.samples[moment.sample] ?? first.samples[0]
    if (!sample) throw new Error('There is no sample in this page; type an input.')
    if (place === moment.run) return planOfSample(run, sample)
    // Beside another run: the same input, read in this run's own symbols.
    const source = sourceOf(first.task, sample)
    if (source === null) return planOfSample(run, run.samples[moment.sample] ?? run.samples[0])
    return planOf(run.task, readSymbols(run.task, writeSymbols(first.task, source)))
  }

  private stage(sessions: Session[]): void {
    const seek = (step: number): void => { this.player.pause(); this.player.seek(step) }
    const edited = (): void => this.lengthen()
    this.shownStages = sessions.map((session) => new Stage(session, this.data.runs.length > 1, seek, edited))
    this.stages.replaceChildren(...this.shownStages.map((stage) => stage.element))
    this.stages.classList.toggle('two', sessions.length > 1)
    this.player.restart(this.longest(), this.moment.step ?? 0)
  }

  private longest(): number {
    return Math.max(...this.shownStages.map((stage) => stage.session.steps.length))
  }

  private lengthen(): void {
    this.moment.edits = this.shownStages[0].session.edits
    this.player.restart(this.longest(), this.player.step)
  }

  private draw(length: number): void {
    const { task, samples } = this.data.runs[this.moment.run]
    const source = drawn(task, length)
    if (source) this.start({ ...this.moment, typed: writeSymbols(task, source), step: null, edits: {} })
    else this.start({ ...this.moment, typed: null, sample: (this.moment.sample + 1) % samples.length, step: null, edits: {} })
  }

  private show(step: number): void {
    for (const stage of this.shownStages) stage.show(step)
    this.moment.step = step
    // Not at every frame: browsers refuse an address that changes too often.
    if (!this.waiting) {
      this.waiting = window.setTimeout(() => {
        this.waiting = 0
        try {
          history.replaceState(null, '', this.address())
        } catch {
          // Inside another page the address is not ours.
        }
      }, 300)
    }
  }

  private address(): string {
    return writeAddress(this.moment)
  }

  private typedText(): string {
    const { task, samples } = this.data.runs[this.moment.run]
    if (this.moment.typed !== null) return this.moment.typed
    const source = samples[this.moment.sample] ? sourceOf(task, samples[this.moment.sample]) : null
    return source ? writeSymbols(task, source) : ''
  }

  private say(text: string): void {
    this.alert.textContent = text
    shown(this.alert, text !== '')
  }

  private tabs(watch: HTMLElement, training: HTMLElement): HTMLElement {
    const buttons = [['Watch', watch], ['Training', training]].map(([name, section]) =>
      el('button', {
        type: 'button',
        'aria-pressed': section === watch ? 'true' : 'false',
        click: () => {
          shown(watch, section === watch)
          shown(training, section === training)
          if (section === training) training.querySelector('.course')?.replaceChildren(...this.course())
          for (const button of buttons) button.setAttribute('aria-pressed', String(button.textContent === name))
        },
      }, String(name)),
    )
    return el('nav', { class: 'tabs', 'aria-label': 'views' }, ...buttons)
  }

  private course(): HTMLElement[] {
    const places = this.data.runs.flatMap((run, place) => (run.after_batches === undefined ? [] : [place]))
    return courseFigures(places.map((place) => this.session(place, { ...this.moment, edits: {} })))
  }

  private pressed(event: KeyboardEvent): void {
    const target = event.target as HTMLElement
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return
    const acts: Record<string, () => void> = {
      ArrowLeft: () => this.player.seek(this.player.step - 1),
      ArrowRight: () => this.player.seek(this.player.step + 1),
      Home: () => this.player.seek(0),
      End: () => this.player.seek(this.longest() - 1),
      ' ': () => this.player.toggle(),
      '[': () => this.player.faster(-1),
      ']': () => this.player.faster(1),
    }
    const act = acts[event.key]
    if (!act || (event.key === ' ' && target.tagName === 'BUTTON')) return
    event.preventDefault()
    if (event.key !== ' ' && event.key !== '[' && event.key !== ']') this.player.pause()
    act()
  }
}

function help(): HTMLElement {
  const keys = [['Space', 'play or pause'], ['← →', 'a step back, a step on'], ['Home End', 'to the start, to the end'], ['[ ]', 'slower, faster']]
  const rows = keys.map(([key, text]) => el('div', {}, el('dt', {}, key), el('dd', {}, text)))
  return el('footer', {}, el('dl', { class: 'keys' }, ...rows), el('p', { class: 'faint' }, 'The network runs in this page; nothing is sent or fetched.'))
}
