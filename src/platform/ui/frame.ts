import type { Assets, Island } from './assets.ts'
import { type Html, html, nothing } from './html.ts'
import { pageInZone } from './text.ts'

/** The metadata of a page for search engines. */
type SearchEngineMeta = {
  /** The canonical path of the page, with its query if the query makes another page. */
  readonly path: string
  readonly description: string
  /** The subject of the page, in the terms of schema.org (JSON-LD). */
  readonly data?: Readonly<Record<string, unknown>>
}

/** The content of a page. */
export type View = {
  /** The title of the page, in its heading and in the browser. */
  readonly title: string
  readonly body: Html
  /** Links and buttons next to the heading. */
  readonly actions?: Html
  /** API calls and commands that do the same, one per line. */
  readonly cliEquivalents?: readonly string[]
  /** The islands of the page. */
  readonly islands?: readonly Island[]
  /** For search engines. Left out: the page must not be indexed. */
  readonly indexed?: SearchEngineMeta
  /** A page without navigation, for visitors who are not signed in yet. */
  readonly standalone?: true
}

export type Theme = 'light' | 'dark' | null

type NavItem = { readonly path: string; readonly label: string }
export type NavGroup = { readonly label: string; readonly items: readonly NavItem[] }

/** The frame of a page. */
export type FrameContext = {
  readonly assets: Pick<Assets, 'style' | 'island'>
  readonly theme: Theme
  /** The time zone for times; null: UTC. */
  readonly zone: string | null
  /** The path of the page, for the navigation. */
  readonly path: string
  /** The result of the last action, shown once. */
  readonly flash: string | null
  readonly navigation: readonly NavGroup[]
  /** The name of the signed-in person; null: not signed in. */
  readonly person: string | null
  /** The account that a member of the staff views; null: none. */
  readonly viewing: string | null
  /** The address of the pages, e.g. `https://shop.example`; null if the page does not need it. */
  readonly origin: string | null
  /** The address of the API, e.g. `https://shop.example`; null if the page does not need it. */
  readonly site: string | null
  /** The name of the service. */
  readonly name: string
}

/** Pages load styles and scripts from the service only. Scripts write no HTML. */
export const pagePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const isCurrent = (path: string, item: string): boolean =>
  path === item || (item !== '/console' && item !== '/' && path.startsWith(`${item}/`))

const navOf = ({ navigation, path }: FrameContext): Html =>
  navigation.length === 0
    ? nothing
    : html`<nav aria-label="Console">${navigation.map(
        ({ label, items }) =>
          html`${label === '' ? null : html`<h2>${label}</h2>`}<ul>${items.map(
            (item) =>
              html`<li><a href="${item.path}"${isCurrent(path, item.path) ? { html: ' aria-current="page"' } : null}>${item.label}</a></li>`,
          )}</ul>`,
      )}</nav>`

const themes: readonly { readonly value: string; readonly label: string }[] = [
  { value: 'system', label: 'System' },
  { value: 'light', label: 'Light' },
  { value: 'dark', label: 'Dark' },
]

const themeForm = ({ theme, path }: FrameContext): Html => html`<form method="post" action="/console/theme">
<input type="hidden" name="to" value="${path}">
${themes.map(
  ({ value, label }) =>
    html`<button class="plain" name="theme" value="${value}"${(theme ?? 'system') === value ? { html: ' aria-pressed="true"' } : { html: ' aria-pressed="false"' }}>${label}</button> `,
)}</form>`

const sidebar = (pageContext: FrameContext): Html => html`<header class="side"><div>
<a class="brand" href="/console">${pageContext.name}</a>
${navOf(pageContext)}
<div class="me">${
  pageContext.person === null
    ? html`<p><a href="/console/sign-in">Sign in</a></p>`
    : html`<p>${pageContext.person}</p>
<form method="post" action="/console/sign-out"><button class="plain">Sign out</button></form>`
}
${themeForm(pageContext)}
<p><a href="/console/times?${String(new URLSearchParams({ back: pageContext.path }))}">Times in ${pageContext.zone ?? 'UTC'}</a></p></div>
</div></header>`

/** The values of the variables in calls, as shell lines. */
const namesIn = (callText: string, site: string | null): readonly string[] =>
  [
    ['API', `${site}/api/v1`],
    ['SITE', site],
    ['FINANCE', `${site}/finance/v1`],
    ['INSIDE', 'http://127.0.0.1:PORT   # FAREBOX_METRICS_PORT'],
    ['KEY', 'your-key   # create one under "API keys"'],
    ['TOKEN', 'your-token   # from "npx farebox finance token create"'],
  ]
    .filter(([name]) => callText.includes(`$${name}`))
    .map(([name, value]) => `${name}=${value}`)

const equivalentsOf = (calls: readonly string[], { site }: FrameContext): Html => {
  if (calls.length === 0) return nothing
  const callText = calls.join('\n')
  return html`<section class="equivalents" aria-labelledby="equivalents"><h2 id="equivalents">API and CLI</h2><pre tabindex="0">${[...namesIn(callText, site), callText].join('\n')}</pre></section>`
}

const messageView = (flash: string | null): Html =>
  flash === null ? nothing : html`<p class="message" role="status">${flash}</p>`

const bannerOf = (viewing: string | null): Html =>
  viewing === null
    ? nothing
    : html`<div class="banner" role="status"><p>You see the pages of <strong>${viewing}</strong> as it sees them. You cannot change anything, and this view is recorded in the log.</p>
<form method="post" action="/console/view/stop"><button>Stop viewing</button></form></div>`

/** JSON that cannot close the element around it. */
const scriptJson = (data: object): Html => ({ html: JSON.stringify(data).replaceAll('<', '\\u003c') })

const forEngines = ({ indexed }: View, { origin }: FrameContext): Html =>
  indexed === undefined || origin === null
    ? html`<meta name="robots" content="noindex">\n`
    : html`<meta name="description" content="${indexed.description}">
<link rel="canonical" href="${origin}${indexed.path}">
${indexed.data === undefined ? null : html`<script type="application/ld+json">${scriptJson({ '@context': 'https://schema.org', url: `${origin}${indexed.path}`, ...indexed.data })}</script>\n`}`

/** Renders a whole page in its frame. */
export const framed = (view: View, pageContext: FrameContext): string => {
  const { title, body, actions, cliEquivalents = [], standalone } = view
  const { assets, person } = pageContext
  const islands: readonly Island[] = [
    ...(person === null ? [] : ['send-once' as const]),
    ...(view.islands ?? []),
  ]
  const mainView = html`<main id="main">
<header><h1>${title}</h1>${actions === undefined ? null : html`<div class="actions">${actions}</div>`}</header>
${messageView(pageContext.flash)}${body}
${equivalentsOf(cliEquivalents, pageContext)}</main>`
  const page = html`<!doctype html>
<html lang="en"${pageContext.theme === null ? null : html` data-theme="${pageContext.theme}"`}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
${forEngines(view, pageContext)}<title>${title} · ${pageContext.name}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${assets.style}">
${islands.map((name) => html`<script type="module" src="${assets.island(name)}"></script>\n`)}</head>
<body>
<a class="skip" href="#main">Skip to content</a>
${bannerOf(pageContext.viewing)}${standalone ? html`<div class="standalone">${mainView}</div>` : html`<div class="shell">${sidebar(pageContext)}${mainView}</div>`}
</body>
</html>
`.html
  return pageContext.zone === null ? page : pageInZone(page, pageContext.zone)
}
