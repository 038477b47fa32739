import { existsSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Route } from '../http/route.ts'
import { type Page, pageOf, pageRoute } from '../ui/bare-page.ts'
import { escapeHtml, type Html, html } from '../ui/html.ts'
import { style } from './docs-assets.ts'

/** The path of another page of `docs/`, by its file name without `.md`; null: the service does not serve it. */
export type GuideLink = (name: string) => string | null

const linked = (text: string, target: string, linkOf: GuideLink): string => {
  if (/^https:\/\//.test(target)) return `<a href="${target}" rel="noreferrer">${text}</a>`
  if (target.startsWith('#')) return `<a href="${target}">${text}</a>`
  const [, name = '', anchor = ''] = /^(?:[\w.-]+\/)*([\w-]+)\.md(#[\w-]+)?$/.exec(target) ?? []
  const path = linkOf(name)
  return path === null ? text : `<a href="${path}${anchor}">${text}</a>`
}

/**
 * Renders `code`, **bold** and links in one line. Code is taken out first and put back last, so that it is not changed.
 */
const inline = (text: string, linkOf: GuideLink): string => {
  const codes: string[] = []
  const plain = text
    .replaceAll('\0', '')
    .replace(/`([^`]+)`/g, (_whole, code: string) => `\0${codes.push(code) - 1}\0`)
  return escapeHtml(plain)
    .replace(/\[([^[\]]+)\]\(([^)\s]+)\)/g, (_whole, label: string, target: string) =>
      linked(label, target, linkOf),
    )
    .replace(/\*\*([^*]+)\*\*/g, '<strong>$1</strong>')
    .replace(/\0(\d+)\0/g, (_whole, at: string) => `<code>${escapeHtml(codes[Number(at)] ?? '')}</code>`)
}

/** The anchor of a heading, as GitHub names it. */
const slug = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-')

const cells = (row: string): readonly string[] =>
  row
    .replace(/^\s*\|/, '')
    .replace(/\|\s*$/, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'))

const tableView = (lines: readonly string[], linkOf: GuideLink): string => {
  const [head = '', , ...rows] = lines
  const line = (row: string, tag: 'th' | 'td') =>
    `<tr>${cells(row)
      .map((cell) => `<${tag}>${inline(cell, linkOf)}</${tag}>`)
      .join('')}</tr>`
  const heading = cells(head).some((cell) => cell !== '') ? `<thead>${line(head, 'th')}</thead>` : ''
  return `<div class="scroll"><table>${heading}<tbody>${rows.map((row) => line(row, 'td')).join('')}</tbody></table></div>`
}

const item = /^(?:- |\d+\. )/

/** An item starts at the margin. The lines after it belong to it. */
const listView = (lines: readonly string[], linkOf: GuideLink): string => {
  const items: string[] = []
  for (const line of lines)
    if (item.test(line)) items.push(line.replace(item, ''))
    else items.push(`${items.pop() ?? ''} ${line.trim()}`)
  const tag = lines[0]?.startsWith('- ') ? 'ul' : 'ol'
  return `<${tag}>${items.map((text) => `<li>${inline(text, linkOf)}</li>`).join('')}</${tag}>`
}

const pre = (text: string): string => `<pre><code>${escapeHtml(text)}</code></pre>`

/** The lines from `from` on, up to the first that does not fit. */
const run = (lines: readonly string[], from: number, fits: (line: string) => boolean): readonly string[] => {
  const end = lines.findIndex((line, at) => at >= from && !fits(line))
  return lines.slice(from, end === -1 ? undefined : end)
}

const isText = (line: string): boolean => line.trim() !== '' && !/^(#|```|\||- |\d+\. )/.test(line)

type Block = { readonly view: string; readonly lines: number }

const blockAt = (lines: readonly string[], at: number, linkOf: GuideLink): Block => {
  const line = lines[at] ?? ''
  const [, hashes, title] = /^(#{1,4}) (.*)$/.exec(line) ?? []
  if (hashes !== undefined && title !== undefined)
    return {
      view: `<h${hashes.length} id="${slug(title)}">${inline(title, linkOf)}</h${hashes.length}>`,
      lines: 1,
    }
  if (line.startsWith('```')) {
    const body = run(lines, at + 1, (next) => !next.startsWith('```'))
    return { view: pre(body.join('\n')), lines: body.length + 2 }
  }
  if (line.startsWith('    ')) {
    const body = run(lines, at, (next) => next.startsWith('    ') || next === '')
    return {
      view: pre(
        body
          .map((each) => each.slice(4))
          .join('\n')
          .trimEnd(),
      ),
      lines: body.length,
    }
  }
  if (line.startsWith('|')) {
    const rows = run(lines, at, (next) => next.startsWith('|'))
    return { view: tableView(rows, linkOf), lines: rows.length }
  }
  if (item.test(line)) {
    const rows = run(lines, at, (next) => item.test(next) || /^ +\S/.test(next))
    return { view: listView(rows, linkOf), lines: rows.length }
  }
  const [first = '', ...more] = [line, ...run(lines, at + 1, isText)]
  return { view: `<p>${inline([first, ...more].join(' '), linkOf)}</p>`, lines: 1 + more.length }
}

/** Renders a page of `docs/`: headings, paragraphs, lists, tables and code, as those pages use them. */
export const guideView = (text: string, linkOf: GuideLink): Html => {
  const lines = text.split('\n')
  let view = ''
  for (let at = 0; at < lines.length; ) {
    if (lines[at]?.trim() === '') {
      at += 1
      continue
    }
    const block = blockAt(lines, at, linkOf)
    view += block.view
    at += block.lines
  }
  return { html: view }
}

/** A page of `docs/` that the service serves in addition to the reference. */
export type Guide = { readonly name: string; readonly title: string; readonly text: string }

const folder = join(import.meta.dirname, '../../../docs')

/** The pages of `docs/` in the order of the lists: for callers of the API, then for operators of the service. */
const guidePages = {
  callers: [
    'quickstart',
    'concepts',
    'reference/api',
    'guides/proxy-lines',
    'guides/webhooks',
    'guides/subscriptions',
    'guides/scrapers',
    'guides/resellers',
    'guides/migrate-from-another-panel',
    'guides/free-tools',
  ],
  operators: ['operations/run', 'operations/catalog', 'finance/exports', 'finance/periods', 'finance/seals'],
} as const

const guideOf = (page: string): readonly Guide[] => {
  const path = join(folder, `${page}.md`)
  if (!existsSync(path)) return []
  const text = readFileSync(path, 'utf8')
  const name = basename(page)
  return [{ name, title: /^# (.*)$/m.exec(text)?.[1] ?? name, text }]
}

/** The guides of this installation. An image may leave `docs/` out. */
export const readGuides = (): Readonly<Record<keyof typeof guidePages, readonly Guide[]>> => ({
  callers: guidePages.callers.flatMap(guideOf),
  operators: guidePages.operators.flatMap(guideOf),
})

export const guidePath = (name: string): string => `/docs/guides/${name}`

const guidePage = (guide: Guide, served: ReadonlySet<string>): Page =>
  pageOf({
    title: `${guide.title} · Farebox`,
    style,
    body: html`<header><a class="brand" href="/docs"><span class="mark" aria-hidden="true"></span>Farebox</a><span class="space"></span><a href="/docs">API reference</a></header>
<main class="guide">${guideView(guide.text, (name) => (served.has(name) ? guidePath(name) : null))}</main>`,
  })

/** Links to guides, as a list. */
export const guideList = (guides: readonly Guide[]): Html =>
  html`<ul>${guides.map(({ name, title }) => html`<li><a href="${guidePath(name)}">${title}</a></li>`)}</ul>`

/** `GET /docs/guides/{name}`: one page per guide, the same for every client, without scripts and without requests. */
export const guideRoutes = (guides: readonly Guide[]): readonly Route[] => {
  const served = new Set(guides.map(({ name }) => name))
  return guides.map((guide) =>
    pageRoute({
      path: guidePath(guide.name),
      operationId: `getGuide${guide.name.replace(/(?:^|-)(\w)/g, (_, letter) => letter.toUpperCase())}`,
      summary: guide.title,
      page: async () => guidePage(guide, served),
    }),
  )
}
