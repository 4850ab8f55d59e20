// Colours that colour-blind people can tell apart (Okabe & Ito), and shades of one of them.

const HUES = { blue: [0, 114, 178], orange: [213, 94, 0] } as const

/** Red, green, blue and opacity of a value in 0..1; what is below is shown as 0, above as 1. */
export function shade(value: number, hue: keyof typeof HUES): [number, number, number, number] {
  const [red, green, blue] = HUES[hue]
  const share = Math.min(1, Math.max(0, value))
  return [red, green, blue, Math.round(255 * (share === 0 ? 0 : 0.08 + 0.92 * share))]
}
