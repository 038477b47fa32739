import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import { sha256 } from '../../kernel/digest.ts'
import { base, colours } from './bare-page.ts'

const consoleColours = {
  light:
    '--good: #0a6b52; --warn: #8a5200; --bad: #a8261c; --tint: #eef4f1; --field: #ffffff; --on: #ffffff;',
  dark: '--good: #5cc9a3; --warn: #e6b45c; --bad: #ff9a8f; --tint: #1a2420; --field: #0c110f; --on: #0c1512;',
}

/** The style of every page of the console. Its file name changes with its content, so browsers load it once. */
export const consoleStyle = `${colours(consoleColours)}
${base}
body { font-size: 15px; line-height: 1.5; overflow-wrap: anywhere; }
h1, h2, h3 { line-height: 1.25; margin: 0; text-wrap: balance; }
h1 { font-size: 1.5rem; letter-spacing: -.01em; } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; } h3 { font-size: 1rem; }
p { margin: .4rem 0; max-width: 70ch; } ul, ol { padding-left: 1.2rem; }
code, pre { font: .86em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.soft, small, .hint { color: var(--soft); } small { font-size: .88em; }
.skip { position: absolute; left: -999px; } .skip:focus { left: .5rem; top: .5rem; background: var(--card); padding: .5rem; z-index: 2; }
.shell { display: grid; position: relative; min-height: 100vh; grid: "top me side" auto "main main main" 1fr "foot foot foot" auto / 1fr auto auto; }
.top, .me, .side, .find { background: var(--card); border-bottom: 1px solid var(--line); display: flex; align-items: center; gap: .8rem; padding: .45rem 1rem; min-height: 3.2rem; }
.top { grid-area: top; } .me { grid-area: me; justify-content: end; padding-inline: .3rem; } .side { grid-area: side; padding-inline: .3rem 1rem; } .find { grid-area: find; display: none; }
.brand { font-weight: 700; color: var(--ink); text-decoration: none; letter-spacing: -.01em; font-size: 1.05rem; padding: .25rem 0; white-space: nowrap; } .find-link { padding: .25rem 0; white-space: nowrap; }
summary { cursor: pointer; padding: .2rem 0; min-height: 24px; }
.me > details, .side > details { max-width: 100%; } .me summary, .side summary { list-style: none; border: 1px solid var(--line); border-radius: 7px; padding: .3rem .7rem; font-weight: 600; max-width: 11rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.me summary::-webkit-details-marker, .side summary::-webkit-details-marker { display: none; }
.me details > div, .side > details > div { position: absolute; top: 3.2rem; right: 0; left: 0; z-index: 3; background: var(--card); border-bottom: 1px solid var(--line); padding: .6rem 1rem 1rem; box-shadow: 0 12px 24px -12px #0006; }
.side ul, .me ul { list-style: none; margin: 0; padding: 0; } .side ul a, .me ul a { display: block; padding: .36rem .6rem; border-radius: 6px; color: var(--ink); text-decoration: none; min-height: 24px; }
.side a:hover, .me ul a:hover { background: var(--tint); } .side a[aria-current], .me ul a[aria-current] { background: var(--tint); color: var(--accent); font-weight: 600; }
.side h2 { font-size: .75rem; text-transform: uppercase; letter-spacing: .06em; color: var(--soft); margin: .9rem 0 .1rem; padding: 0 .6rem; } .own { margin-top: .9rem; } .own > summary { border: 0 !important; color: var(--soft); padding: 0 .6rem !important; }
.me p, .me form { margin: .5rem .6rem; } .me form, .inline { display: inline-flex; gap: .4rem; flex-wrap: wrap; align-items: center; }
.crumbs ol { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem .4rem; margin: 0 0 .3rem; padding: 0; font-size: .9rem; } .crumbs li::after { content: "/"; margin-left: .4rem; color: var(--soft); }
.tabs ul { list-style: none; display: flex; flex-wrap: wrap; gap: 0 1.2rem; margin: -.3rem 0 1.1rem; padding: 0; border-bottom: 1px solid var(--line); } .tabs a { display: block; padding: .4rem 0; color: var(--soft); text-decoration: none; border-bottom: 2px solid transparent; margin-bottom: -1px; } .tabs a[aria-current] { color: var(--ink); font-weight: 600; border-color: var(--accent); }
footer { grid-area: foot; border-top: 1px solid var(--line); padding: .8rem 1rem; font-size: .88rem; display: flex; flex-wrap: wrap; gap: .2rem 1rem; } footer ul { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: 0; padding: 0; } footer a { display: inline-block; padding: .15rem 0; min-height: 24px; color: var(--soft); }
main { grid-area: main; min-width: 0; }
main { padding: 1.4rem 1rem 3rem; max-width: 76rem; width: 100%; }
main > header { display: flex; flex-wrap: wrap; gap: .6rem 1rem; align-items: center; justify-content: space-between; margin-bottom: 1rem; }
.standalone { max-width: 27rem; margin: 6vh auto 0; padding: 1.6rem; }
.standalone main { padding: 0; }
.filters { margin: 0 0 .8rem; } .filters form { display: flex; flex-wrap: wrap; gap: .5rem .7rem; align-items: end; } .filters label { display: block; color: var(--soft); font-size: .82rem; } .filters :is(input, select) { width: auto; min-width: 0; max-width: 13rem; padding: .38rem .55rem; } .filters button { padding: .4rem .8rem; }
.presets { display: flex; flex-wrap: wrap; gap: .1rem .9rem; margin: .5rem 0; font-size: .9rem; max-width: none; } .presets a { padding: .15rem 0; } .presets [aria-current] { color: var(--ink); font-weight: 600; text-decoration: none; }
th a[aria-sort], thead a { color: inherit; }
.id { white-space: nowrap; } .copy { border: 0; background: none; color: var(--accent); font-size: .8rem; padding: .1rem .3rem; min-width: 24px; } td .id span, th .id span, .cell .id span { display: inline-block; position: relative; width: 1em; overflow: hidden; text-indent: 1em; vertical-align: bottom; } td .id span::before, th .id span::before, .cell .id span::before { content: "\\2026"; position: absolute; left: 0; width: 1em; text-indent: 0; text-align: center; }
td .copy, th .copy { opacity: 0; } :is(td, th):hover .copy, .copy:focus { opacity: 1; }
.card, .standalone { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.card { padding: 1rem 1.1rem; }
.card > h2:first-child { margin-top: 0; } :is(.card, .cards, .table, p) + :is(.card, .cards), .cards + .table { margin-top: .8rem; } .cards .card { margin: 0; }
.cards { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); }
.cards .card h2 { margin: 0; font-size: .88rem; color: var(--soft); font-weight: 500; }
h3 { margin: 1.2rem 0 .4rem; font-size: 1rem; } .card h3 { margin-top: 0; }
.figure { font-size: 1.7rem; font-weight: 650; letter-spacing: -.02em; margin: .15rem 0; font-variant-numeric: tabular-nums lining-nums; }
.table { overflow-x: auto; border: 1px solid var(--line); border-radius: 10px; background: var(--card); }
table { overflow-wrap: break-word; border-collapse: collapse; width: 100%; font-size: .93rem; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td { padding: .5rem .8rem; text-align: left; vertical-align: top; border-top: 1px solid var(--line); }
tbody th { font-weight: 500; min-width: 7rem; } tbody th:has(small) { min-width: 9rem; } thead th { border-top: 0; font-weight: 600; font-size: .82rem; color: var(--soft); white-space: nowrap; }
tbody tr:hover { background: var(--tint); }
.number { text-align: right; font-variant-numeric: tabular-nums lining-nums; white-space: nowrap; }
time { white-space: nowrap; }
.state { white-space: nowrap; } .state::before { content: ""; display: inline-block; width: .55em; height: .55em; margin-right: .45em; border-radius: 50%; background: currentColor; }
.state.good { color: var(--good); } .state.warn { color: var(--warn); } .state.warn::before { border-radius: 0; clip-path: polygon(50% 0, 100% 100%, 0 100%); width: .65em; height: .6em; }
.state.bad { color: var(--bad); } .state.bad::before { border-radius: 0; } .state.off { color: var(--soft); } .state.off::before { background: none; border: 1.5px solid currentColor; }
.empty { border: 1px dashed var(--line); border-radius: 10px; padding: 1.4rem; color: var(--soft); text-align: center; } .empty p { margin-inline: auto; }
.pager { display: flex; gap: 1rem; margin: .9rem 0; } .pager a { padding: .25rem 0; }
live-parts { display: block; } live-parts .cards { align-items: start; } live-parts .stack, .group { display: grid; gap: 1rem; margin: 0; }
form.stack { display: grid; gap: 1rem; max-width: 34rem; margin: .8rem 0; }
.field { border: 0; margin: 0; padding: 0; min-width: 0; } .field label, .field legend { font-weight: 600; padding: 0; }
.field label.choice { display: flex; gap: .5rem; font-weight: 400; padding: .25rem 0; align-items: baseline; }
.hint, .problem { margin: .1rem 0 .3rem; font-size: .88rem; } .problem { color: var(--bad); font-weight: 600; }
input:not([type=checkbox], [type=radio]), select, textarea { font: inherit; width: 100%; padding: .5rem .6rem; border: 1px solid var(--soft); border-radius: 7px; background: var(--field); color: var(--ink); }
[aria-invalid] { border-color: var(--bad) !important; }
button, .button { font: inherit; font-weight: 600; padding: .5rem .9rem; border-radius: 7px; border: 1px solid var(--line); background: var(--card); color: var(--ink); cursor: pointer; text-decoration: none; display: inline-block; min-height: 24px; }
button:hover, .button:hover { border-color: var(--accent); } button[aria-disabled] { opacity: .55; cursor: default; }
.first { background: var(--accent); border-color: var(--accent); color: var(--on); } .danger { border-color: var(--bad); color: var(--bad); }
button.plain { border: 0; background: none; color: var(--accent); padding: .15rem 0; margin-right: .5rem; font-weight: 500; text-decoration: underline; text-underline-offset: 3px; }
button.plain[aria-pressed=true] { color: var(--ink); text-decoration: none; }
.actions { display: flex; flex-wrap: wrap; gap: .6rem; align-items: center; }
.message { border: 1px solid var(--line); border-left: 4px solid var(--accent); background: var(--card); border-radius: 8px; padding: .6rem .9rem; margin: 0 0 1rem; } .message.bad { border-left-color: var(--bad); } .message.warn { border-left-color: var(--warn); } .message ul { margin: .3rem 0; }
.banner { background: var(--warn); color: var(--paper); padding: .5rem 1rem; display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; } .banner p { margin: 0; max-width: none; } .banner button { background: transparent; color: inherit; border-color: currentColor; }
.secret { display: block; padding: .8rem; border: 1px solid var(--accent); border-radius: 8px; background: var(--field); font-size: 1rem; user-select: all; }
dl.facts { display: grid; grid-template-columns: minmax(8rem, auto) minmax(0, 1fr); gap: .35rem 1rem; margin: .6rem 0; } dl.facts dt { color: var(--soft); } dl.facts dd { margin: 0; }
ol.timeline { list-style: none; padding: 0; margin: .6rem 0; border-left: 2px solid var(--line); } ol.timeline > li { padding: .1rem 0 .9rem 1rem; position: relative; } ol.timeline > li::before { content: ""; position: absolute; left: -6px; top: .55em; width: 10px; height: 10px; border-radius: 50%; background: var(--accent); }
.equivalents { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: .6rem; color: var(--soft); } .equivalents copy-text { display: block; } .equivalents pre { overflow-x: auto; background: var(--tint); color: var(--ink); padding: .7rem .9rem; border-radius: 8px; margin: .4rem 0; }
pre.result { overflow: auto; max-height: 32rem; background: var(--tint); padding: .7rem .9rem; border-radius: 8px; white-space: pre-wrap; }
.plot { display: grid; grid-template-columns: auto minmax(0, 1fr); margin: .4rem 0; color: var(--soft); font-size: .82rem; } .plot svg { display: block; height: 140px; } .bars { width: 100%; } .scale text { fill: currentColor; text-anchor: end; font-size: 12px; }
.bars rect { fill: var(--accent); } .bars .below { fill: var(--bad); } .bars line { stroke: var(--line); } .bars .zero { stroke: var(--soft); } .bars :is(line, polyline) { vector-effect: non-scaling-stroke; } .bars polyline { fill: none; stroke: var(--ink); stroke-dasharray: 4 3; opacity: .7; }
.axis, .key { grid-column: 2; margin: .2rem 0 0; max-width: none; } .axis { display: flex; justify-content: space-between; }
ul.legs { list-style: none; padding: 0; margin: .2rem 0; font-variant-numeric: tabular-nums lining-nums; }
meter { width: 7rem; height: .8rem; }
@media (min-width: 60rem) {
  .shell { grid: "top find me" auto "side main main" 1fr "side foot foot" auto / 14.5rem minmax(0, 1fr) auto; }
  .find { display: flex; gap: .4rem; padding-left: 2.2rem; } .find input { max-width: 30rem; padding: .38rem .6rem !important; } .find button { padding: .38rem .8rem; } .find-link { display: none; }
  .top + .me { grid-column: find-start / me-end; } .me { padding-right: 1.4rem; } .me details > div { left: auto; right: 1.4rem; min-width: 16rem; border: 1px solid var(--line); border-radius: 8px; top: 2.9rem; } .me summary { max-width: 18rem; }
  .side { display: block; border-right: 1px solid var(--line); border-bottom: 0; padding: .6rem .8rem 2rem; }
  .wide-open::details-content { content-visibility: visible; block-size: auto; } @supports selector(::details-content) { .wide-open > summary { display: none; } }
  .side > details > div { position: static; padding: 0; border: 0; box-shadow: none; }
  main { padding: 1.6rem 2.2rem 4rem; } footer { padding-inline: 2.2rem; }
}
@media (max-width: 40rem) {
  dl.facts { grid-template-columns: minmax(0, 1fr); gap: 0; } dl.facts dd { margin-bottom: .5rem; } .standalone { margin: 0; border: 0; border-radius: 0; min-height: 100vh; }
  .me summary { max-width: 6rem; } .top { gap: .5rem; padding-inline: .7rem .3rem; }
  .filters form > * { flex: 1 1 8rem; } .filters :is(input, select) { width: 100%; max-width: none; }
  table, tbody, caption { display: block; } thead { display: none; } tr { display: grid; grid-template-columns: 1fr auto; gap: .05rem .8rem; padding: .6rem .9rem; border-top: 1px solid var(--line); } tbody tr:first-child { border-top: 0; }
  td, tbody th { border: 0; padding: 0; min-width: 0 !important; grid-column: 1 / -1; } td:empty { display: none; }
  tbody th { grid-column: 1; grid-row: 1; } tbody th ~ th { grid-column: 1 / -1; grid-row: auto; } td.lead { grid-column: 2; grid-row: 1; font-weight: 600; text-align: right; } tr:not(:has(.lead)) th { grid-column: 1 / -1; } tr:not(:has(th)) .lead { grid-row: auto; }
  td[data-label] { display: flex; justify-content: space-between; gap: .8rem; text-align: right; white-space: normal; overflow-wrap: anywhere; font-size: .95em; } td[data-label]::before { content: attr(data-label); color: var(--soft); text-align: left; font-weight: 400; }
  td.minor { display: none; }
}
@media (prefers-reduced-motion: no-preference) { a, button { transition: background .12s, border-color .12s; } }
@media print { .top, .find, .me, .side, .crumbs, .tabs, footer, .filters, .equivalents, .pager, .actions, .banner, form { display: none !important; } .shell { display: block; } main { padding: 0; max-width: none; } .table { border: 0; overflow: visible; } body { font-size: 11px; background: #fff; color: #000; } }
`

export type Asset = { readonly mediaType: 'text/css' | 'text/javascript'; readonly text: string }

/** The files that pages load from the service. Each name changes with the content of the file. */
export type Assets = {
  /** The path of the style, e.g. `/console/assets/console-0f3a….css`. */
  readonly style: string
  /** The path of an island of `src/platform/ui/islands/`. */
  readonly island: (name: Island) => string
  /** The file by the last part of its path; null if there is none, or if it is of another version. */
  find(file: string): Asset | null
}

export const islands = ['copy-text', 'live-parts', 'passkey', 'proxy-checks', 'forms'] as const
export type Island = (typeof islands)[number]

export const assetFolder = '/console/assets'

/**
 * The script of an island. Its types are replaced by blanks, so that lines and columns do not change. Node warns on
 * each start that the function may change. The warning is suppressed, because the version of Node is pinned and a test
 * runs the result.
 */
const scriptOf = (name: Island): string => {
  const source = readFileSync(join(import.meta.dirname, `./islands/${name}.ts`), 'utf8')
  const { emitWarning } = process
  process.emitWarning = () => undefined
  try {
    return stripTypeScriptTypes(source)
  } finally {
    process.emitWarning = emitWarning
  }
}

/** Removes comments and indentation, which only readers of the source need. */
const squeezed = (script: string): string =>
  script
    .replace(/\/\*\*[\s\S]*?\*\//g, '')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join('\n')

export const createAssets = (): Assets => {
  const files = new Map<string, Asset>()
  const add = (name: string, ending: string, asset: Asset): string => {
    const file = `${name}-${sha256(asset.text).toString('hex').slice(0, 16)}.${ending}`
    files.set(file, asset)
    return `${assetFolder}/${file}`
  }
  const style = add('console', 'css', { mediaType: 'text/css', text: squeezed(consoleStyle) })
  const scripts = new Map(
    islands.map((name) => [
      name,
      add(name, 'js', { mediaType: 'text/javascript', text: squeezed(scriptOf(name)) }),
    ]),
  )
  return {
    style,
    island: (name) => scripts.get(name)!,
    find: (file) => files.get(file) ?? null,
  }
}
