import { readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '..')

/** Modules that need a separate process: servers, databases, sockets and child processes. */
const needsOwnProcess = /^(?:node:(?:child_process|net|http|worker_threads)|pg|undici|fastify)$/

const importLine = /^(?:import|export)\s+(?!type\s)(?:[^']*?\sfrom\s+)?'([^']+)'/gm

/** The imports of a test file: packages by name, files by their path from the root. */
const importsOf = (file: string): readonly string[] =>
  [...readFileSync(join(root, file), 'utf8').matchAll(importLine)].map(([, to = '']) =>
    to.startsWith('.') ? relative(root, resolve(root, dirname(file), to)) : to,
  )

/** Heavy, waiting on sockets that the sources open, or one that measures how long something takes: it would hold up all others. */
const apart: readonly string[] = [
  'test/architecture/regexes.test.ts',
  'test/features/free-list/probe.test.ts',
]

/**
 * Whether a test file and its helpers start nothing: hundreds of such tests run in one process in a second.
 */
export const isPure = (file: string): boolean => {
  const seen = new Set([file])
  for (const each of seen)
    for (const to of importsOf(each)) {
      if (needsOwnProcess.test(to)) return false
      if (to.startsWith('test/')) seen.add(to)
    }
  return !apart.includes(file)
}
