import { runCli } from '../../src/app/cli-program.ts'
import { allRegistrations } from '../../src/app/commands.ts'
import { readConfig } from '../../src/app/config.ts'
import { openCliContext } from '../../src/app/open-context.ts'

export type Printed = { readonly code: number; readonly out: string; readonly err: string }

/**
 * Runs a command line with its own core, like a process next to the server, without the second that a process
 * takes to start. `farebox` of `./farebox.ts` is for tests of the process: signals, its streams, a Postgres
 * that it starts.
 */
export const operate = async (args: readonly string[], env: NodeJS.ProcessEnv): Promise<Printed> => {
  let out = ''
  let err = ''
  const code = await runCli(args, await allRegistrations(), {
    out: (text) => {
      out += `${text}\n`
    },
    err: (text) => {
      err += `${text}\n`
    },
    environment: env,
    open: (options) => openCliContext(readConfig(env), env.LOG_LEVEL !== undefined, Date.now, options),
  })
  return { code, out, err }
}
