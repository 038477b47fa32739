import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { runCli } from '../../../src/app/cli-program.ts'
import type { Config } from '../../../src/app/config.ts'
import type { Farebox } from '../../../src/app/start.ts'
import { commands as resellerCommands } from '../../../src/features/resellers/commands.ts'
import type { CliContext } from '../../../src/platform/cli/cli-context.ts'
import type { Register } from '../../../src/platform/cli/command.ts'

/** The operator whose commands the tests run. */
export const operator = { kind: 'operator', name: 'tester' } as const

export type Ran = {
  readonly code: number
  readonly out: string
  readonly err: string
  // biome-ignore lint/suspicious/noExplicitAny: the output of a command is read freely
  readonly json: any
}

/** Runs command lines as `npm run farebox -- …` does, inside this process, with `--json`. */
export const cliOf = (
  { core, config }: Pick<Farebox, 'core' | 'config'>,
  rooms: readonly Register<Config>[] = resellerCommands,
  actor: CliContext['actor'] = operator,
) => {
  const run = async (args: readonly string[]): Promise<Ran> => {
    const out: string[] = []
    const err: string[] = []
    const context: CliContext = { ...core, config, actor, correlationId: 'run_test' }
    const code = await runCli(args, rooms, {
      out: (text) => out.push(text),
      err: (text) => err.push(text),
      open: async () => ({ context, close: async () => undefined }),
    })
    const text = out.join('\n')
    return { code, out: text, err: err.join('\n'), json: text.startsWith('{') ? JSON.parse(text) : null }
  }
  return Object.assign((...args: readonly string[]) => run([...args, '--json']), {
    /** The same for people, without `--json`. */
    text: (...args: readonly string[]) => run(args),
  })
}

/** Files for commands; gone with the test. */
export const scratch = async (t: TestContext) => {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-resellers-'))
  t.after(() => rm(directory, { recursive: true, force: true }))
  return async (name: string, content: unknown): Promise<string> => {
    const path = join(directory, name)
    await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
    return path
  }
}
