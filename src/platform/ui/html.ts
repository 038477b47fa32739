/** Text that is HTML. A template escapes every other value. */
export type Html = { readonly html: string }

type Part = string | number | Html | readonly Html[] | null

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (char) => entities[char] ?? char)

const render = (part: Part): string => {
  if (part === null) return ''
  if (typeof part === 'string' || typeof part === 'number') return escapeHtml(String(part))
  return 'html' in part ? part.html : part.map(({ html }) => html).join('')
}

/** A template whose values are escaped unless they are `Html`: ``html`<b>${name}</b>` ``. */
export const html = (texts: TemplateStringsArray, ...parts: readonly Part[]): Html => ({
  html: texts.map((text, at) => `${text}${at < parts.length ? render(parts[at] ?? null) : ''}`).join(''),
})

export const nothing: Html = { html: '' }
