import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'

export const root = join(import.meta.dirname, '../../..')

/** The kinds of `npm run new`, in an order in which no created file imports a missing one. */
export const kindNames = ['event', 'read-model', 'route', 'command', 'page', 'invariant', 'setting'] as const

/** Lines that `npm run new` prints for a file. `below`: they follow the line that begins so; null: anywhere. */
export type PrintedStep = {
  readonly file: string
  readonly place: string
  readonly below: string | null
  readonly lines: readonly string[]
}

const stepsIn = (output: string): readonly PrintedStep[] =>
  [...output.matchAll(/^ {2}(\S+), (.+):\n((?: {4}.*\n)+)/gm)].map(
    ([, file = '', place = '', text = '']) => ({
      file,
      place,
      below: /^below "(.+)"$/.exec(place)?.[1] ?? null,
      lines: text
        .trimEnd()
        .split('\n')
        .map((line) => line.slice(4)),
    }),
  )

/** A copy of some files of the repository, in which `npm run new` creates files. */
export const copyOf = (t: TestContext, paths: readonly string[]) => {
  const folder = mkdtempSync(join(tmpdir(), 'farebox-new-'))
  t.after(() => rmSync(folder, { recursive: true }))
  for (const path of paths) cpSync(join(root, path), join(folder, path), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  const run = (...args: readonly string[]) =>
    new Promise<{ readonly code: unknown; readonly out: string; readonly err: string }>((done) =>
      execFile(process.execPath, args, { cwd: folder, maxBuffer: 2 ** 26 }, (error, out, err) =>
        done({ code: error?.code ?? 0, out, err }),
      ),
    )
  return {
    folder,
    run,
    read: (file: string) => readFileSync(join(folder, file), 'utf8'),
    create: async (...args: readonly string[]) => {
      const { code, out, err } = await run('tools/dev/new.ts', ...args)
      const [, list = ''] = /^Created:\n((?: {2}.*\n)+)/.exec(out) ?? []
      return { code, out, err, files: list.trim().split(/\s+/), steps: stepsIn(out) }
    },
  }
}
