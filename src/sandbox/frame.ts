import { type Html, html } from '../platform/pages/html.ts'

/** The style of every page of the sandbox, inline: a page loads nothing. */
export const style = `
:root { color-scheme: light dark; --ink: #16202b; --soft: #5b6876; --paper: #fff; --back: #eef1f4; --line: #d5dbe1; --act: #0b5c8a; --on: #fff; --alarm: #b3261e }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf2; --soft: #9aa7b4; --paper: #1a2129; --back: #10151a; --line: #323c47; --act: #58b0e0; --on: #0c1116 } }
* { box-sizing: border-box }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back) }
header { background: var(--alarm); color: #fff; text-align: center; padding: .6rem 1rem; font-weight: 700; letter-spacing: .12em }
header small { display: block; font-weight: 400; letter-spacing: 0 }
main { max-width: 30rem; margin: 2rem auto; padding: 1.75rem; background: var(--paper); border: 1px solid var(--line); border-radius: 10px }
main.wide { max-width: 60rem }
h1, h2 { margin: 0; overflow-wrap: break-word; line-height: 1.3 }
h1 { font-size: 1.15rem } h2 { font-size: 1rem; margin-top: 2rem }
p { margin: .5rem 0 } a { color: var(--act) } code { font-size: .9em }
.amount { font-size: 2.4rem; font-weight: 650; font-variant-numeric: tabular-nums; margin: .5rem 0 0 }
dl { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: .25rem 1rem; margin: 1.25rem 0; font-size: .9rem }
dt { color: var(--soft) } dd { margin: 0; text-align: right; overflow-wrap: break-word; font-variant-numeric: tabular-nums }
form { display: grid; gap: .5rem; grid-template-columns: 1fr 1fr; margin: 0 } form + form, .note + form { margin-top: 1rem }
button { font: inherit; padding: .6rem; border-radius: 7px; border: 1px solid var(--line); background: transparent; color: var(--ink); cursor: pointer }
button:hover { border-color: var(--act) }
button:focus-visible, input:focus-visible, select:focus-visible, a:focus-visible { outline: 3px solid var(--act); outline-offset: 2px }
button.first { grid-column: 1 / -1; background: var(--act); border-color: var(--act); color: var(--on); font-weight: 600 }
button[disabled] { opacity: .45; cursor: default; border-color: var(--line) }
label { grid-column: 1 / -1; display: grid; gap: .25rem; font-size: .9rem; color: var(--soft) }
input, select { font: inherit; padding: .55rem; border: 1px solid var(--line); border-radius: 7px; background: var(--paper); color: var(--ink); min-width: 0 }
.said { border-left: 4px solid var(--alarm); padding: .4rem .8rem; margin: 1rem 0 } .note { color: var(--soft); font-size: .9rem; margin: 1rem 0 0 } .back { display: block; text-align: center; margin-top: 1.25rem }
ul.cards { list-style: none; margin: .5rem 0 0; padding: 0 } ul.cards li { border-top: 1px solid var(--line); padding: .6rem 0; display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 0 1rem }
ul.cards small { grid-column: 1 / -1; color: var(--soft); overflow-wrap: break-word } ul.cards p { grid-column: 1 / -1; white-space: pre-wrap; overflow-wrap: break-word; margin: 0 }
ul.cards b { font-variant-numeric: tabular-nums }
form.switches { grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: .75rem 1rem; margin-top: .75rem; align-items: end } form.switches label { grid-column: auto } form.switches label.on { display: flex; align-items: center; gap: .5rem; color: var(--ink) }
form.switches .act { grid-column: 1 / -1; display: flex; gap: .5rem } form.switches .first { flex: 1 }
@media (max-width: 32rem) { main { margin: 0; padding: 1.25rem; border: 0; border-radius: 0 } }`

/** A whole page under the banner that says that nothing is real; `wide` for lists. */
export const framed = (page: {
  readonly title: string
  /** What this stands in for. */
  readonly note: string
  readonly body: Html
  readonly wide?: boolean
}): string =>
  html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><title>SANDBOX · ${page.title}</title><style>${{ html: style }}</style></head>
<body><header>SANDBOX<small>${page.note} No money moves.</small></header>
<main${page.wide ? { html: ' class="wide"' } : null}>${page.body}</main></body></html>`.html

/** For an address that no page has. */
export const notFoundPage = (what: string): string =>
  framed({
    title: 'not found',
    note: 'Stand-ins for the payment providers.',
    body: html`<h1>${what}</h1>
<p>It may be of another start: a fresh data directory begins with no invoices.</p>
<a class="back" href="/">Everything in the sandbox</a>`,
  })
