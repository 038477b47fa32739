import type { Command } from 'commander'
import { proxyStatuses } from '../../../projections/proxies.ts'
import type { Cli } from '../../platform/cli/cli-context.ts'
import { registerListCommands } from '../accounts/for-commands.ts'

/** Imported lazily, when a command runs. */
const runs = () => import('./run-commands.ts')

/** `proxies list|show`; passwords are not shown. */
export const registerProxies = (program: Command, cli: Cli): void =>
  registerListCommands(
    program.command('proxies'),
    cli,
    { name: 'proxies', one: 'proxy', exampleId: 'prx_…', statuses: proxyStatuses },
    async () => (await runs()).proxies,
  )

export const commands = [registerProxies] as const
