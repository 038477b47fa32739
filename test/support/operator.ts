import { runCli } from '../../src/app/cli-program.ts'
import { registrationsFor } from '../../src/app/commands.ts'
import { readConfig } from '../../src/app/config.ts'
import { openCliContext } from '../../src/app/open-context.ts'
import type { Farebox } from '../../src/app/start.ts'
import type { CliContext } from '../../src/platform/cli/cli-context.ts'
import { demoCommands } from '../../tools/demo-history/main.ts'

export type Printed = { readonly code: number; readonly out: string; readonly err: string }

/** What an operator does by hand. */
export const operator = { actor: { kind: 'operator', name: 'test' }, correlationId: 'test' } as const

const print = async (
  args: readonly string[],
  how: Omit<Parameters<typeof runCli>[2], 'out' | 'err'>,
  joined: (lines: readonly string[]) => string,
): Promise<Printed> => {
  const [out, err]: [string[], string[]] = [[], []]
  const code = await runCli(args, [...(await registrationsFor(args)), ...demoCommands], {
    out: (line) => out.push(line),
    err: (line) => err.push(line),
    ...how,
  })
  return { code, out: joined(out), err: joined(err) }
}

/**
 * Runs a command line with its own core, like a process next to the server, without the second that a process
 * takes to start. `farebox` of `./farebox.ts` is for tests of the process: signals, its streams, a Postgres
 * that it starts.
 */
export const operate = (args: readonly string[], env: NodeJS.ProcessEnv): Promise<Printed> =>
  print(
    args,
    {
      environment: env,
      clock: Date.now,
      open: (options) => openCliContext(readConfig(env), env.LOG_LEVEL !== undefined, Date.now, options),
    },
    (lines) => lines.map((line) => `${line}\n`).join(''),
  )

/** Runs command lines on a running service, with `--json`, as this operator. */
export const commandLineOf = (
  { core, config }: Pick<Farebox, 'core' | 'config'>,
  actor: CliContext['actor'] = operator.actor,
) => {
  const context: CliContext = { ...core, auditorPool: core.pool, config, actor, correlationId: 'test' }
  /** The same for people, without `--json`. */
  const text = (...args: readonly string[]) =>
    print(args, { open: async () => ({ context, close: async () => undefined }) }, (lines) =>
      lines.join('\n'),
    )
  const cli = async (...args: readonly string[]) => {
    const printed = await text(...args, '--json')
    // biome-ignore lint/suspicious/noExplicitAny: the output of a command is read freely
    const json: any = printed.out.startsWith('{') ? JSON.parse(printed.out) : null
    return { ...printed, json }
  }
  return Object.assign(cli, { text })
}
