import type { Command } from 'commander'
import type { Cli } from '../../platform/cli/cli-context.ts'
import { registerListCommands } from '../accounts/for-commands.ts'

/** Loaded when a command runs. */
const runs = () => import('./run-commands.ts')

/** `webhooks list|show`. Secrets are not shown. */
export const registerWebhooks = (program: Command, cli: Cli): void =>
  registerListCommands(
    program.command('webhooks'),
    cli,
    { name: 'webhooks', one: 'webhook', exampleId: 'whs_…' },
    async () => (await runs()).webhooks,
  )

export const commands = [registerWebhooks] as const
