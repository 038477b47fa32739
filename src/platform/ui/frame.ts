import type { Assets, Island } from './assets.ts'
import { type Html, html, nothing } from './html.ts'
import { copyButton, pageInZone } from './text.ts'

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

/** A link of the navigation. */
export type Link = {
  readonly label: string
  readonly path: string
  /** The page is shown (`page`), or a page below it (`true`). */
  readonly current: 'page' | 'true' | null
}

export type LinkGroup = { readonly label: string; readonly links: readonly Link[]; readonly folded: boolean }

/** The links of the frame of a page. */
export type Navigation = {
  readonly groups: readonly LinkGroup[]
  readonly menu: readonly Link[]
  readonly footer: readonly Link[]
  /** The pages of the same entry. */
  readonly tabs: readonly Link[]
  /** The pages above the page, the topmost first. */
  readonly crumbs: readonly { readonly label: string; readonly path: string }[]
}

export const noNavigation: Navigation = { groups: [], menu: [], footer: [], tabs: [], crumbs: [] }

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
  readonly navigation: Navigation
  /** The name of the signed-in person; null: not signed in. */
  readonly person: string | null
  /** The person may run commands of the command line. */
  readonly isStaff: boolean
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

const linkView = ({ path, label, current }: Link): Html =>
  html`<a href="${path}"${current === null ? null : html` aria-current="${current}"`}>${label}</a>`

const linkList = (links: readonly Link[]): Html =>
  html`<ul>${links.map((link) => html`<li>${linkView(link)}</li>`)}</ul>`

/** Groups with the same title follow each other under one title. Folded groups are shown on request. */
const groupsView = (groups: readonly LinkGroup[]): Html => {
  const folded = groups.filter((group) => group.folded)
  const view = ({ label, links }: LinkGroup): Html =>
    html`${label === '' ? null : html`<h2>${label}</h2>`}${linkList(links)}`
  return html`${groups.filter((group) => !group.folded).map(view)}${
    folded.length === 0
      ? null
      : html`<details class="own"><summary>Your own use</summary>${folded.map(view)}</details>`
  }`
}

/** The entries of the navigation. A narrow window shows them on request, without script. */
const navigationView = ({ navigation: { groups } }: FrameContext): Html =>
  groups.length === 0
    ? nothing
    : html`<nav class="side" aria-label="Console"><details class="wide-open"><summary>Menu</summary><div>${groupsView(groups)}</div></details></nav>`

const themes: readonly { readonly value: string; readonly label: string }[] = [
  { value: 'system', label: 'System' },
  { value: 'light', label: 'Light' },
  { value: 'dark', label: 'Dark' },
]

const themeForm = ({ theme, path }: FrameContext): Html => html`<form method="post" action="/console/theme">
<input type="hidden" name="to" value="${path}">
${themes.map(
  ({ value, label }) =>
    html`<button class="plain" name="theme" value="${value}" aria-pressed="${String((theme ?? 'system') === value)}">${label}</button> `,
)}</form>`

const personMenu = (pageContext: FrameContext): Html => {
  const { person, navigation, path, zone } = pageContext
  return html`<nav class="me" aria-label="${person === null ? 'Display' : 'Your account'}">${person === null ? html`<a href="/console/sign-in">Sign in</a>` : null}<details><summary>${person ?? 'Display'}</summary><div>
${navigation.menu.length === 0 ? null : linkList(navigation.menu)}<p><a href="/console/times?${String(new URLSearchParams({ back: path }))}">Times in ${zone ?? 'UTC'}</a></p>
${themeForm(pageContext)}
${person === null ? null : html`<form method="post" action="/console/sign-out"><button>Sign out</button></form>`}</div></details></nav>`
}

const searchForm: Html = html`<form method="get" action="/console/search" class="find" role="search"><label class="skip" for="find">Search everything</label><input type="search" id="find" name="q" maxlength="254" placeholder="Search by id, e-mail, reference or address"><button>Search</button></form>`

const topBar = (pageContext: FrameContext): Html => {
  const { person, name } = pageContext
  return html`<header class="top"><a class="brand" href="${person === null ? '/' : '/console'}">${name}</a>${person === null ? null : html`<a class="find-link" href="/console/search">Search</a>`}</header>
${person === null ? null : searchForm}${personMenu(pageContext)}${navigationView(pageContext)}`
}

const crumbsView = ({ navigation: { crumbs } }: FrameContext): Html =>
  crumbs.length === 0
    ? nothing
    : html`<nav class="crumbs" aria-label="Breadcrumb"><ol>${crumbs.map(({ label, path }) => html`<li><a href="${path}">${label}</a></li>`)}</ol></nav>`

const tabsView = ({ navigation: { tabs } }: FrameContext): Html =>
  tabs.length === 0 ? nothing : html`<nav class="tabs" aria-label="Related pages">${linkList(tabs)}</nav>`

const footerView = ({ navigation: { footer } }: FrameContext): Html =>
  html`<footer>${footer.length === 0 ? null : html`<nav aria-label="Public pages">${linkList(footer)}</nav>`}<a href="/docs">API reference</a></footer>`

/** The values of the variables in calls, as shell lines. */
const namesIn = (callText: string, site: string | null): readonly string[] =>
  [
    ['API', `${site}/api/v1`],
    ['SITE', site],
    ['FINANCE', `${site}/finance/v1`],
    ['INSIDE', 'http://127.0.0.1:PORT   # FAREBOX_METRICS_PORT'],
    ['KEY', 'your-key   # create one under "API keys"'],
    ['TOKEN', 'your-token   # from "bin/farebox finance token create"'],
  ]
    .filter(([name]) => callText.includes(`$${name}`))
    .map(([name, value]) => `${name}=${value}`)

/** The calls and commands that do the same, as a box to open. Commands need a shell of the service: staff only. */
const equivalentsOf = (calls: readonly string[], { site, isStaff }: FrameContext): Html => {
  const shown = calls.filter((call) => isStaff || !call.startsWith('bin/farebox '))
  if (shown.length === 0) return nothing
  const callText = shown.join('\n')
  return html`<details class="equivalents" id="equivalents"><summary>API and CLI</summary><copy-text>${copyButton('Copy the commands')}<pre tabindex="0">${[...namesIn(callText, site), callText].join('\n')}</pre></copy-text></details>`
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
  const mainView = html`<main id="main">
${crumbsView(pageContext)}<header><h1>${title}</h1>${actions === undefined ? null : html`<div class="actions">${actions}</div>`}</header>
${tabsView(pageContext)}${messageView(pageContext.flash)}${body}
${equivalentsOf(cliEquivalents, pageContext)}</main>`
  const islands: readonly Island[] = [
    ...(person === null ? [] : ['forms' as const]),
    ...(mainView.html.includes('<copy-text') ? ['copy-text' as const] : []),
    ...(view.islands ?? []),
  ]
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
${bannerOf(pageContext.viewing)}${standalone ? html`<div class="standalone">${mainView}</div>` : html`<div class="shell">${topBar(pageContext)}${mainView}${footerView(pageContext)}</div>`}
</body>
</html>
`.html
  return pageContext.zone === null ? page : pageInZone(page, pageContext.zone)
}
