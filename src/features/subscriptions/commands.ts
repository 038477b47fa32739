import type { Command } from 'commander'
import { subscriptionStatuses } from '../../../projections/subscriptions.ts'
import type { Cli } from '../../platform/cli/cli-context.ts'
import { registerListCommands } from '../accounts/for-commands.ts'

/** Imported lazily, when a command runs. */
const runs = () => import('./run-commands.ts')

/** `subscriptions list|show` */
export const registerSubscriptions = (program: Command, cli: Cli): void =>
  registerListCommands(
    program.command('subscriptions'),
    cli,
    { name: 'subscriptions', one: 'subscription', exampleId: 'sub_…', statuses: subscriptionStatuses },
    async () => (await runs()).subscriptions,
  )

export const commands = [registerSubscriptions] as const
