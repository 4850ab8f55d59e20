// Elements with attributes and children. Text always goes in as text: nothing is parsed as HTML.

type Child = Node | string | null
type Attributes = Record<string, string | number | boolean | null | ((event: Event) => void)>

const SVG = 'http://www.w3.org/2000/svg'

function filled<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value)
    else if (value === true) element.setAttribute(name, '')
    else if (value !== null && value !== false) element.setAttribute(name, String(value))
  }
  element.append(...children.filter((child): child is Node | string => child !== null))
  return element
}

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  return filled(document.createElement(tag), attributes, children)
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]
): SVGElementTagNameMap[K] {
  return filled(document.createElementNS(SVG, tag), attributes, children)
}

export function shown(element: HTMLElement, is: boolean): void {
  element.hidden = !is
}

/** Let a parent have just these children, of which it has a beginning already. */
export function resized(parent: Element, children: Element[]): void {
  while (parent.childElementCount > children.length) parent.lastElementChild!.remove()
  if (parent.childElementCount < children.length) parent.append(...children.slice(parent.childElementCount))
}

/** Set a text only where it is another: a browser lays out again what is set. */
export function write(element: Element, text: string): void {
  const { firstChild } = element
  if (!(firstChild instanceof Text)) element.textContent = text
  else if (firstChild.data !== text) firstChild.data = text
}

/** A number as a reader wants it. */
export function short(value: number): string {
  if (Number.isInteger(value)) return String(value)
  const size = Math.abs(value)
  if (size < 0.0005 || size >= 1e4) return value.toExponential(0)
  return value.toFixed(size < 0.05 ? 3 : 2)
}
