const light = `--paper: #fbfaf7; --card: #ffffff; --ink: #1d2321; --soft: #5f6a66; --line: #e4e1d9; --accent: #0a6b52;`
const dark = `--paper: #101513; --card: #161d1a; --ink: #e3e9e6; --soft: #98a6a0; --line: #28322e; --accent: #5cc9a3;`

/**
 * The colours as CSS variables, light and dark: as the system says, or as `data-theme` on the root does. A page with
 * colours of its own gives both sets.
 */
export const colours = (
  own: { readonly light: string; readonly dark: string } = { light: '', dark: '' },
): string => `
:root { ${light} ${own.light} color-scheme: light; }
@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) { ${dark} ${own.dark} color-scheme: dark; } }
:root[data-theme="dark"] { ${dark} ${own.dark} color-scheme: dark; }`

/** What every page begins with: boxes, colours and the fonts of the system, since a page loads nothing. */
export const base = `
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
a { color: var(--accent); text-underline-offset: 3px; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 3px; }`
