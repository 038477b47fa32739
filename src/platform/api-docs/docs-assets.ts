import { base, colours } from '../ui/bare-page.ts'

/** The page's script: search, the theme, copying, the server's own address in the samples. It sends no request. */
export const script = `
const all = (selector, root = document) => [...root.querySelectorAll(selector)]
for (const span of all('.origin')) if (location.origin.startsWith('http')) span.textContent = location.origin

const root = document.documentElement
const stored = (() => { try { return localStorage.getItem('theme') } catch { return null } })()
if (stored) root.dataset.theme = stored
document.getElementById('theme').addEventListener('click', () => {
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
  root.dataset.theme = dark ? 'light' : 'dark'
  try { localStorage.setItem('theme', root.dataset.theme) } catch { /* private windows keep nothing */ }
})

// Over plain HTTP from another machine a browser has no clipboard to write to: then the command is selected.
const copy = async (code) => {
  try { await navigator.clipboard.writeText(code.textContent); return true } catch { /* selected below */ }
  getSelection().selectAllChildren(code)
  return document.execCommand('copy')
}
for (const button of all('.copy')) button.addEventListener('click', async () => {
  const code = button.parentElement.querySelector('code')
  button.textContent = (await copy(code)) ? 'Copied' : 'Press Ctrl+C'
  setTimeout(() => { button.textContent = 'Copy' }, 1500)
})

const search = document.getElementById('search')
const items = all('[data-find]')
const links = new Map(all('nav li a').map((link) => [link.hash.slice(1), link]))
const find = () => {
  const words = search.value.toLowerCase().split(/\\s+/).filter(Boolean)
  for (const item of items) {
    item.hidden = !words.every((word) => item.dataset.find.includes(word))
    const link = links.get(item.id)
    if (link) link.parentElement.hidden = item.hidden
  }
  for (const section of all('section.tag')) section.hidden = words.length > 0 && !all('[data-find]', section).some((item) => !item.hidden)
  for (const list of all('nav ul')) list.previousElementSibling.hidden = words.length > 0 && !all('li', list).some((item) => !item.hidden)
  document.querySelector('.empty').hidden = items.some((item) => !item.hidden)
}
search.addEventListener('input', find)
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && document.activeElement !== search) { event.preventDefault(); search.focus() }
  if (event.key === 'Escape' && document.activeElement === search) { search.value = ''; find(); search.blur() }
})

const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue
    for (const link of links.values()) link.removeAttribute('aria-current')
    links.get(target.id)?.setAttribute('aria-current', 'true')
  }
}, { rootMargin: '-15% 0px -75% 0px' })
for (const article of all('article.operation')) seen.observe(article)
`

const docsColours = {
  light: `--code: #f3f1ea; --panel: #16201d; --panel-ink: #dbe6e1; --panel-soft: #8fa39c; --get: #1f5fa8; --post: #0a6b52; --patch: #9a5b00; --delete: #ab2b2b;`,
  dark: `--code: #1d2623; --panel: #0b100e; --panel-ink: #dbe6e1; --panel-soft: #8fa39c; --get: #7db4f0; --post: #5cc9a3; --patch: #e3ac55; --delete: #f08a8a;`,
}

/** The style of the documentation and its guides. */
export const style = `${colours(docsColours)}${base}
html { scroll-padding-top: 72px; scroll-behavior: smooth; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
code, pre { font-family: ui-monospace, "SF Mono", SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
code { font-size: .86em; background: var(--code); padding: .12em .36em; border-radius: 4px; overflow-wrap: break-word; display: inline-block; max-width: 100%; line-height: 1.5; }
pre { margin: 0; padding: 14px 16px; overflow-x: auto; font-size: 13px; line-height: 1.55; }
pre code { background: none; padding: 0; font-size: inherit; overflow-wrap: normal; display: block; width: max-content; max-width: none; line-height: inherit; }
.hidden, .skip:not(:focus) { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.skip:focus { position: fixed; top: 8px; left: 8px; z-index: 9; background: var(--card); padding: 8px 12px; }
header { position: sticky; top: 0; z-index: 5; height: 56px; display: flex; align-items: center; gap: 16px; padding: 0 24px; background: var(--paper); border-bottom: 1px solid var(--line); font-size: 14px; }
.brand { display: flex; align-items: center; gap: 10px; font-weight: 650; font-size: 17px; color: var(--ink); text-decoration: none; letter-spacing: -.01em; }
.mark { width: 22px; height: 22px; border-radius: 5px; background: linear-gradient(var(--paper), var(--paper)) center 6px / 12px 2.5px no-repeat, linear-gradient(var(--paper), var(--paper)) center 13px / 6px 6px no-repeat, var(--accent); }
.version { color: var(--soft); white-space: nowrap; } .space { flex: 1; }
#theme { border: 1px solid var(--line); background: var(--card); color: var(--ink); border-radius: 6px; width: 32px; height: 32px; font-size: 16px; cursor: pointer; }
.page { display: grid; grid-template-columns: 290px minmax(0, 1fr); max-width: 1560px; margin: 0 auto; }
nav { position: sticky; top: 56px; height: calc(100vh - 56px); overflow-y: auto; padding: 20px 12px 40px 24px; border-right: 1px solid var(--line); font-size: 14px; }
nav h2 { font-size: 12px; letter-spacing: .06em; text-transform: uppercase; margin: 20px 0 6px 8px; }
nav h2 a { color: var(--soft); text-decoration: none; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li a { display: flex; gap: 8px; align-items: baseline; padding: 4px 8px; border-radius: 6px; color: var(--ink); text-decoration: none; }
nav li a:hover { background: var(--code); }
nav li a[aria-current] { background: var(--code); box-shadow: inset 2px 0 var(--accent); }
.search input { width: 100%; padding: 8px 10px; border: 1px solid var(--line); border-radius: 6px; background: var(--card); color: var(--ink); font: inherit; }
.method { font: 700 10.5px/1.5 ui-monospace, Menlo, Consolas, monospace; letter-spacing: .03em; flex: none; min-width: 44px; }
.method.get { color: var(--get); } .method.post { color: var(--post); } .method.patch, .method.put { color: var(--patch); } .method.delete { color: var(--delete); }
main { padding: 0 40px 96px; min-width: 0; }
h1, h2, h3 { line-height: 1.2; letter-spacing: -.015em; overflow-wrap: anywhere; }
.intro { max-width: 46rem; padding: 44px 0 12px; }
.intro h1 { font-size: 38px; margin: 0 0 8px; }
.lead { font-size: 19px; color: var(--soft); margin: 0 0 24px; }
.tag > h2 { font-size: 28px; margin: 64px 0 4px; }
.tag > p { color: var(--soft); max-width: 46rem; margin: 0 0 8px; }
.operation { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 40px; padding: 34px 0; border-top: 1px solid var(--line); }
.operation h3, .schema h3 { font-size: 20px; margin: 0 0 4px; }
.operation h3 a { color: inherit; text-decoration: none; }
.operation h4 { font-size: 13px; margin: 24px 0 4px; color: var(--soft); font-weight: 600; }
.path { margin: 0 0 12px; display: flex; gap: 6px; align-items: baseline; }
.path .method { font-size: 13px; min-width: 0; }
.path code { font-size: 14px; background: none; overflow-wrap: anywhere; }
.says p { margin: 0 0 12px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
.fields th { text-align: left; vertical-align: top; font-weight: 500; padding: 9px 16px 9px 0; width: 40%; border-top: 1px solid var(--line); }
.fields td { vertical-align: top; padding: 9px 0; border-top: 1px solid var(--line); }
.fields p { margin: 2px 0 0; color: var(--soft); }
.fields small { color: var(--soft); }
.optional, .place { display: inline-block; color: var(--soft); font-size: 12px; }
.optional { margin-left: 6px; } .place { border: 1px solid var(--line); border-radius: 4px; padding: 0 5px; margin-right: 2px; }
.shows { min-width: 0; align-self: start; position: sticky; top: 72px; max-height: calc(100vh - 88px); overflow-y: auto; border-radius: 10px; }
.sample, .response { background: var(--panel); color: var(--panel-ink); border-radius: 10px; margin-bottom: 8px; position: relative; overflow: hidden; }
.sample { padding-right: 76px; }
.copy { position: absolute; top: 9px; right: 9px; border: 1px solid #ffffff2e; background: #26332f; color: var(--panel-ink); border-radius: 5px; font-size: 12px; padding: 2px 9px; cursor: pointer; }
.response summary { cursor: pointer; padding: 9px 16px; font-size: 13px; color: var(--panel-soft); list-style: none; display: flex; flex-wrap: wrap; gap: 4px 8px; align-items: baseline; }
.response summary::-webkit-details-marker { display: none; }
.response summary::before { content: "▸"; font-size: 10px; } .response[open] > summary::before { content: "▾"; }
.response pre { max-height: 440px; border-top: 1px solid #ffffff1a; }
.type { margin: 0; padding: 0 16px 9px; font-size: 12.5px; color: var(--panel-soft); display: flex; gap: 16px; }
.type:empty { display: none; } .type a { color: #7fd6b8; } .type code { background: #ffffff14; }
.status { font: 700 12.5px ui-monospace, Menlo, Consolas, monospace; } .ok .status { color: #6fd3ae; } .refused .status { color: #f0a58a; }
.chip { font: 12px ui-monospace, Menlo, Consolas, monospace; color: var(--panel-ink); text-decoration: none; background: #ffffff14; padding: 1px 7px; border-radius: 9px; }
.chip:hover { background: #ffffff2b; }
.key { color: #8fc7ff; } .str { color: #a5d6a7; } .num { color: #ffcf8f; } .lit { color: #d6a5ff; }
.scroll { overflow-x: auto; }
.start { max-width: 46rem; } .start h2 { font-size: 28px; margin: 40px 0 4px; } .start h3 { margin: 28px 0 0; } .guides { display: flex; flex-wrap: wrap; gap: 0 48px; } .guides p { margin: 12px 0 0; color: var(--soft); } .guides ul { margin: 4px 0 0; padding-left: 18px; }
.guide { max-width: 52rem; margin: 0 auto; padding: 24px 40px 96px; } .guide pre { background: var(--panel); color: var(--panel-ink); border-radius: 10px; } .guide h2 { margin: 40px 0 8px; } .guide h3 { margin: 28px 0 4px; }
.guide table { margin: 12px 0; } .guide th, .guide td { text-align: left; vertical-align: top; padding: 8px 16px 8px 0; border-top: 1px solid var(--line); } .guide thead th { color: var(--soft); font-weight: 600; border-top: 0; } .guide li { margin: 4px 0; }
.errors th { text-align: left; } .errors tbody th code { white-space: nowrap; } .errors thead th { color: var(--soft); font-weight: 600; font-size: 13px; padding: 6px 16px 6px 0; }
.errors tbody th, .errors td { vertical-align: top; padding: 10px 16px 10px 0; border-top: 1px solid var(--line); font-weight: 400; }
.errors p { margin: 0; max-width: 44rem; } .figure { font-variant-numeric: tabular-nums; } .errors td:last-child { white-space: nowrap; color: var(--soft); }
.errors tr:target, .schema:target h3, .operation:target h3 { background: color-mix(in srgb, var(--accent) 13%, transparent); }
.schema { border-top: 1px solid var(--line); padding: 22px 0; max-width: 52rem; }
.empty { color: var(--soft); padding: 40px 0; }
@media (max-width: 1180px) { .operation { grid-template-columns: minmax(0, 1fr); gap: 20px; } .shows { position: static; max-height: none; } }
@media (max-width: 820px) { .page { grid-template-columns: minmax(0, 1fr); } nav { position: static; height: auto; max-height: 300px; border-right: 0; border-bottom: 1px solid var(--line); padding: 16px 20px; } main { padding: 0 20px 64px; } header { padding: 0 16px; gap: 10px; }  .fields tr, .fields th, .fields td { display: block; width: auto; } .fields th { padding-bottom: 0; } .fields td { border-top: 0; padding-top: 2px; } .guide { padding: 16px 20px 64px; } .intro h1 { font-size: 30px; } }
@media (max-width: 384px) { .version { display: none; } }
`
