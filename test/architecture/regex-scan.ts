import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '../..')

/** A regular expression of a source; `made`: the template of `new RegExp` with its expressions. */
export type Found = { readonly where: string } & (
  | { readonly literal: RegExp }
  | { readonly made: string; readonly flags: string }
)

const wordsBeforeRegex = new Set(
  'return typeof case in of delete void throw new else do await yield'.split(' '),
)
const isWordChar = (char: string): boolean => /[\w$]/.test(char)

/**
 * The regular expressions of a TypeScript source. A slash starts one if no value precedes it; strings,
 * comments and texts of templates are skipped.
 */
export const regexesIn = (source: string, where: string): Found[] => {
  const found: Found[] = []
  let at = source.startsWith('#!') ? source.indexOf('\n') : 0

  const quoted = (quote: string): void => {
    for (at++; source[at] !== quote; at++) if (source[at] === '\\') at++
    at++
  }
  const literal = (): void => {
    const start = at
    let inClass = false
    for (at++; inClass || source[at] !== '/'; at++) {
      if (source[at] === '\\') at++
      else if (source[at] === '[') inClass = true
      else if (source[at] === ']') inClass = false
      else if (source[at] === '\n') throw new Error(`${where}: no regular expression begins at ${start}`)
    }
    const body = source.slice(start + 1, at)
    const flagsFrom = ++at
    while (isWordChar(source[at] ?? '')) at++
    found.push({ where, literal: new RegExp(body, source.slice(flagsFrom, at)) })
  }
  const template = (): void => {
    for (at++; source[at] !== '`'; )
      if (source[at] === '\\') at += 2
      else if (source.startsWith('${', at)) {
        at += 2
        code('}')
        at++
      } else at++
    at++
  }
  const word = (): string => {
    const start = at
    while (isWordChar(source[at] ?? '')) at++
    return source.slice(start, at)
  }
  const made = (): void => {
    const argument = /^\(\s*(`(?:[^`\\]|\\.)*`|'[^']*')(?:,\s*'(\w*)',?)?\s*\)/.exec(source.slice(at))
    if (argument === null)
      throw new Error(`${where}: RegExp is not given a text here: ${source.slice(at, at + 60)}`)
    found.push({ where, made: argument[1]!.slice(1, -1), flags: argument[2] ?? '' })
  }
  /** Reads on to the closing bracket `end` of this level, or to the end of the source. */
  const code = (end: string): void => {
    let value = false // whether the preceding token can be divided
    while (at < source.length && source[at] !== end) {
      const char = source[at]!
      if (source.startsWith('//', at)) at = (source.indexOf('\n', at) + source.length) % source.length
      else if (source.startsWith('/*', at)) at = source.indexOf('*/', at) + 2
      else if (char === '/' && !value) {
        literal()
        value = true
      } else if (char === "'" || char === '"') {
        quoted(char)
        value = true
      } else if (char === '`') {
        template()
        value = true
      } else if (char === '{') {
        at++
        code('}')
        at++
        value = false
      } else if (isWordChar(char)) {
        const isMember = source[at - 1] === '.'
        const name = word()
        if (name === 'RegExp' && source[at] === '(') made()
        value = isMember || !wordsBeforeRegex.has(name)
      } else {
        if (!/\s/.test(char)) value = char === ')' || char === ']'
        at++
      }
    }
  }
  code('')
  if (at < source.length) throw new Error(`${where}: a bracket too many at ${at}`)
  return found
}

/** Every regular expression in `src/`, `projections/` and `tools/`. */
export const regexesOfSources = (): Found[] =>
  ['src', 'projections', 'tools'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .flatMap((name) => regexesIn(readFileSync(join(root, folder, name), 'utf8'), `${folder}/${name}`)),
  )
