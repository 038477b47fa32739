import type { Html } from '../../pages/html.ts'
import { escapeHtml } from '../../pages/html.ts'

const inline = (text: string): string =>
  escapeHtml(text)
    .replace(/`([^`]+)`/g, '<code>$1</code>')
    .replace(/\*\*([^*]+)\*\*/g, '<strong>$1</strong>')

const block = (text: string): string => {
  const lines = text.split('\n')
  if (!lines.every((line) => line.startsWith('- '))) return `<p>${lines.map(inline).join(' ')}</p>`
  return `<ul>${lines.map((line) => `<li>${inline(line.slice(2))}</li>`).join('')}</ul>`
}

/** The Markdown that descriptions use: paragraphs, lists, **bold** and `code`. */
export const markdown = (text: string): Html => ({
  html: text
    .split(/\n{2,}/)
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .map(block)
    .join(''),
})
