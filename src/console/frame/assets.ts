import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import { sha256 } from '../../kernel/hash.ts'
import { consoleStyle } from './style.ts'

export type Asset = { readonly mediaType: 'text/css' | 'text/javascript'; readonly text: string }

/** What pages load from the service itself, each under a name that changes with what is in it. */
export type Assets = {
  /** The path of the style, e.g. `/console/assets/console-0f3a….css`. */
  readonly style: string
  /** The path of an island of `src/console/islands/`. */
  readonly island: (name: Island) => string
  /** By the last part of its path; null when there is none, or it is of another version. */
  find(file: string): Asset | null
}

export const islands = ['copy-text', 'live-parts', 'passkey', 'proxy-checks'] as const
export type Island = (typeof islands)[number]

export const assetFolder = '/console/assets'

/**
 * The script of an island: its types become blanks, so that lines and columns stay as they are. Node warns on each start
 * that the function may change; the version of Node is pinned and a test runs what comes out.
 */
const scriptOf = (name: Island): string => {
  const source = readFileSync(join(import.meta.dirname, `../islands/${name}.ts`), 'utf8')
  const { emitWarning } = process
  process.emitWarning = () => undefined
  try {
    return stripTypeScriptTypes(source)
  } finally {
    process.emitWarning = emitWarning
  }
}

/** Comments and indentation are for whoever reads the source. */
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
