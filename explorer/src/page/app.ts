// The page: which run, which input, and the moment that is shown; all of it in the address.

import type { PageData, RunData } from '../data.ts'
import { Model } from '../machine/model.ts'
import { type Plan, mostSymbols, planOf, planOfSample, readSymbols, sourceOf, writeSymbols } from '../machine/plan.ts'
import { Replay } from '../machine/replay.ts'
import { drawn } from '../machine/rules/index.ts'
import { type Moment, readAddress, writeAddress } from './address.ts'
import { onSchemeChange } from './colours.ts'
import { el, shown } from './dom.ts'
import { courseFigures } from './course.ts'
import { exampleOf } from './examples.ts'
import { Introduction, Tour } from './guide.ts'
import type { Stop } from './lessons.ts'
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
  private readonly introduction = new Introduction(() => this.guide())
  private readonly tour = new Tour((stop) => this.visit(stop))
  private readonly future = el('input', { type: 'checkbox' })
  private readonly link = el('a', { class: 'button' }, 'Link to this step')
  private readonly linked = el('span', { class: 'faint', role: 'status' })
  private readonly alert = el('p', { class: 'alert', role: 'alert', hidden: true })
  private readonly models = new Map<number, Model>()
  private shownStages: Stage[] = []
  private moment: Moment
  private waiting = 0

  constructor(data: PageData, root: HTMLElement) {
    this.data = data
    this.moment = this.opened(location.hash)
    this.player = new Player((step) => this.show(step))
    this.setup = new Setup(data, {
      run: (run) => {
        // Runs that read the same symbols are seen on the same input, as those of a course are.
        const same = String(data.runs[run].task.inputs) === String(data.runs[this.moment.run].task.inputs)
        const input = same ? {} : { ...this.example(run), step: null }
        this.start({ ...this.moment, run, ...input, edits: {} })
      },
      second: (second) => this.start({ ...this.moment, second, edits: {} }),
      type: (typed) => this.start({ ...this.moment, typed, step: null, edits: {} }),
      draw: (length) => this.draw(length),
      sample: (sample) => this.start({ ...this.moment, typed: null, sample, step: null, edits: {} }),
    })
    const options = el('div', { class: 'options' }, el('label', {}, this.future, 'Show the future'), this.link, this.linked)
    this.future.addEventListener('change', () => {
      this.moment.future = this.future.checked
      this.reveal()
      this.player.seek(this.player.step)
    })
    this.link.addEventListener('click', (event) => { event.preventDefault(); void this.copy() })
    const watch = el(
      'section', { 'aria-label': 'watch' },
      this.introduction.element, this.setup.element, this.alert, this.player.element, options, this.stages, this.tour.element,
    )
    const training = trainingTab(data)
    const tabs = training ? this.tabs(watch, training) : null
    root.replaceChildren(el('h1', {}, data.title), ...(tabs ? [tabs] : []), watch, ...(training ? [training] : []), help(data))
    document.title = `${data.title} – unbounded`
    document.addEventListener('keydown', (event) => this.pressed(event))
    window.addEventListener('hashchange', () => {
      if (location.hash !== this.address()) this.start(this.opened(location.hash))
    })
    onSchemeChange(() => {
      for (const stage of this.shownStages) stage.redraw()
      this.player.seek(this.player.step)
    })
    this.start(this.moment)
    // In an iframe without an address of its own there is nothing to link.
    shown(this.link, location.protocol !== 'about:')
  }

  /** Begin with a moment; what is wrong with it is shown, and the page stays as it was. */
  private start(moment: Moment): void {
    this.player.pause()
    this.tour.end()
    const inRange = (place: number | null): number | null =>
      place !== null && place < this.data.runs.length ? place : null
    const next = { ...moment, run: inRange(moment.run) ?? 0, second: inRange(moment.second) }
    const places = next.second === null ? [next.run] : [next.run, next.second]
    try {
      const sessions = places.map((place) => this.session(place, next))
      sessions[0].restart(sessions[0].plan, next.edits)
      this.say('')
      this.moment = next
      this.future.checked = next.future
      this.introduction.show(sessions)
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
    return new Session(run, this.plan(run, place, moment), this.model(place)!)
  }

  /** The network of a run; null where the page has only traces. */
  private model(place: number): Model | null {
    let model = this.models.get(place)
    if (!model && this.data.runs[place].weights) {
      model = new Model(this.data.runs[place])
      this.models.set(place, model)
    }
    return model ?? null
  }

  private plan(run: RunData, place: number, moment: Moment): Plan {
    const typed = (text: string): Plan => planOf(run.task, readSymbols(run.task, text, mostSymbols(run.model.memory)))
    if (moment.typed !== null) return typed(moment.typed)
    const first = this.data.runs[moment.run]
    const sample = first.samples[moment.sample] ?? first.samples[0]
    if (!sample) throw new Error('There is no sample in this page; type an input.')
    if (place === moment.run) return planOfSample(run, sample)
    // Beside another run: the same input, read in this run's own symbols.
    const source = sourceOf(first.task, sample)
    if (source === null) return planOfSample(run, run.samples[moment.sample] ?? run.samples[0])
    return typed(writeSymbols(first.task, source))
  }

  private stage(sessions: Session[]): void {
    const seek = (step: number): void => { this.player.pause(); this.player.seek(step) }
    const edited = (): void => this.lengthen()
    this.shownStages = sessions.map((session) => new Stage(session, this.data.runs.length > 1, seek, edited))
    this.stages.replaceChildren(...this.shownStages.map((stage) => stage.element))
    this.stages.classList.toggle('two', sessions.length > 1)
    this.reveal()
    this.player.restart(this.longest(), this.moment.step ?? 0)
  }

  /** Show or hide the steps that are not played yet. */
  private reveal(): void {
    for (const stage of this.shownStages) stage.session.future = this.moment.future
  }

  /** The moment of an address; where it names no input, the instructive one. */
  private opened(hash: string): Moment {
    const moment = readAddress(hash)
    const names = new URLSearchParams(hash.slice(1))
    const run = moment.run < this.data.runs.length ? moment.run : 0
    const input = names.has('input') || names.has('sample') ? {} : this.example(run)
    return { ...moment, ...input, second: hash.length > 1 ? moment.second : secondOf(this.data) }
  }

  private example(run: number): { typed: string | null; sample: number } {
    return exampleOf(this.data.runs[run], this.model(run))
  }

  /** Begin the tour, on the instructive input. */
  private guide(): void {
    this.start({ ...this.moment, ...this.example(this.moment.run), step: 0, edits: {} })
    this.tour.start(this.shownStages[0].session)
  }

  private visit(stop: Stop | null): void {
    if (stop) {
      this.player.pause()
      this.player.seek(stop.step)
    }
    this.shownStages[0].point(stop?.part ?? null)
  }

  private async copy(): Promise<void> {
    history.replaceState(null, '', this.address())
    try {
      await navigator.clipboard.writeText(location.href)
      this.linked.textContent = 'Link copied.'
    } catch {
      this.linked.textContent = 'Copy the link from the address bar.'
    }
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
    this.link.setAttribute('href', this.address())
    if (this.linked.textContent) this.linked.textContent = ''
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
    if (!act || (event.key === ' ' && /^(BUTTON|SUMMARY)$/.test(target.tagName))) return
    event.preventDefault()
    if (event.key !== ' ' && event.key !== '[' && event.key !== ']') this.player.pause()
    act()
  }
}

/** Two runs are compared at once, and of the course of a training its first and last moment. */
function secondOf({ runs }: PageData): number | null {
  if (runs.length === 2) return 1
  const isCourse = runs.length > 2 && runs.every((run) => run.after_batches !== undefined)
  return isCourse ? runs.length - 1 : null
}

function help({ runs }: PageData): HTMLElement {
  const keys = [['Space', 'play or pause'], ['← →', 'a step back, a step on'], ['Home End', 'to the start, to the end'], ['[ ]', 'slower, faster']]
  const rows = keys.map(([key, text]) => el('div', {}, el('dt', {}, key), el('dd', {}, text)))
  const source = runs.some((run) => run.weights) ? 'The network runs in this page' : 'The steps were recorded'
  return el('footer', {}, el('dl', { class: 'keys' }, ...rows), el('p', { class: 'faint' }, `${source}; nothing is sent or fetched.`))
}
