import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Html, html } from '../../pages/html.ts'
import { type Page, pageOf } from '../../pages/page.ts'
import { pageRoute } from '../page-route.ts'
import type { Route } from '../route.ts'
import { guideView } from './guide-view.ts'
import { style } from './style.ts'

/** A page of `docs/` that the service serves beside the reference. */
export type Guide = { readonly name: string; readonly title: string; readonly text: string }

const folder = join(import.meta.dirname, '../../../../docs')

/** In the order in which they are listed: for whoever calls the API, then for whoever runs the service. */
export const guideNames = {
  callers: ['scrapers', 'webhooks', 'subscriptions', 'resellers', 'free-tools'],
  operators: ['operations', 'catalog', 'exports', 'periods', 'seals'],
} as const

const guideOf = (name: string): readonly Guide[] => {
  const path = join(folder, `${name}.md`)
  if (!existsSync(path)) return []
  const text = readFileSync(path, 'utf8')
  return [{ name, title: /^# (.*)$/m.exec(text)?.[1] ?? name, text }]
}

/** The guides that this installation has: an image may leave `docs/` out. */
export const readGuides = (): Readonly<Record<keyof typeof guideNames, readonly Guide[]>> => ({
  callers: guideNames.callers.flatMap(guideOf),
  operators: guideNames.operators.flatMap(guideOf),
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

/** `GET /docs/guides/{name}`: a page each, the same for all, that runs and loads nothing. */
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
