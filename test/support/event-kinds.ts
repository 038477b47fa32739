import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')

/**
 * Every kind of event that the sources declare (`defineEvent('…')`), or those of some files. A test that must
 * know all of them uses this list, so that it fails for a new kind until it covers that one too.
 */
export const declaredKinds = (files = 'src/**/*.ts'): ReadonlySet<string> =>
  new Set(
    globSync(files, { cwd: root })
      .map((file) => readFileSync(join(root, file), 'utf8'))
      .flatMap((source) => [...source.matchAll(/= defineEvent(?:Of)?\('(\w+)', \{/g)])
      .map(([, kind = '']) => kind),
  )
