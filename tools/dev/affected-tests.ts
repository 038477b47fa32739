import { globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '../..')
const sources = ['src', 'projections', 'tools', 'bench', 'test'].map(
  (folder) => `${folder}/**/*.{ts,mjs,json}`,
)

/** A quoted path: an import, a file that a test reads, or a program that it starts. */
const quotedPath = /['"`]((?:\.{1,2}\/|src\/|projections\/|test\/|docs\/)?[\w./-]+\.(?:ts|mjs|json|md))['"`]/g

const quotedPathsIn = (file: string): readonly string[] =>
  [...readFileSync(join(root, file), 'utf8').matchAll(quotedPath)].flatMap(([, path = '']) => [
    relative(root, resolve(root, dirname(file), path)),
    path,
  ])

const known = new Map<string, { readonly changedMs: number; readonly paths: readonly string[] }>()

/** The files that refer to each path. A second call reads only the files that changed. */
const referrers = (): ReadonlyMap<string, readonly string[]> => {
  const from = new Map<string, string[]>()
  for (const file of globSync(sources, { cwd: root })) {
    const changedMs = statSync(join(root, file)).mtimeMs
    let entry = known.get(file)
    if (entry?.changedMs !== changedMs) {
      entry = { changedMs, paths: quotedPathsIn(file) }
      known.set(file, entry)
    }
    for (const path of entry.paths) from.set(path, [...(from.get(path) ?? []), file])
  }
  return from
}

/** The test files that refer to one of the files, directly or through other files; the nearest first. */
export const affectedTests = (changed: readonly string[]): readonly string[] => {
  const from = referrers()
  const reached = new Set(changed)
  for (const file of reached) for (const one of from.get(file) ?? []) reached.add(one)
  return [...reached].filter(
    (file) => file.endsWith('.test.ts') && statSync(join(root, file), { throwIfNoEntry: false }),
  )
}
