// Colours that colour-blind people can tell apart (Okabe & Ito), and shades of one of them.

const HUES = { blue: [0, 114, 178], orange: [213, 94, 0], grey: [120, 120, 120] } as const
const ON_DARK = { blue: [86, 180, 233], orange: [255, 154, 92], grey: [170, 175, 185] } as const

export type Hue = keyof typeof HUES

/** Less than this is not seen. */
const LEAST = 0.01

const dark = globalThis.matchMedia?.('(prefers-color-scheme: dark)')

/** Red, green, blue and opacity of a value in 0..1; what is above is shown as 1. */
export function shade(value: number, hue: Hue): [number, number, number, number] {
  const [red, green, blue] = (dark?.matches ? ON_DARK : HUES)[hue]
  const share = Math.min(1, Math.max(0, value))
  return [red, green, blue, Math.round(255 * (share < LEAST ? 0 : 0.06 + 0.94 * share))]
}

/** Call when the reader changes between light and dark. */
export function onSchemeChange(redraw: () => void): void {
  dark?.addEventListener('change', redraw)
}

const GROUND = [255, 255, 255]
const DARK_GROUND = [20, 22, 27]

/** The same colour on the page's ground, without transparency: 0 is the ground itself. */
export function opaque(value: number, hue: Hue): [number, number, number, number] {
  const [red, green, blue, opacity] = shade(value, hue)
  const share = opacity / 255
  const ground = dark?.matches ? DARK_GROUND : GROUND
  const mixed = [red, green, blue].map((each, k) => Math.round(share * each + (1 - share) * ground[k]))
  return [mixed[0], mixed[1], mixed[2], 255]
}
