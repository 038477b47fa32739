import { subscriptionStatuses } from '../../../projections/subscriptions.ts'
import { resourceCommands } from '../accounts/for-commands.ts'

/** `subscriptions list|show` */
export const commands = resourceCommands(
  { name: 'subscriptions', one: 'subscription', exampleId: 'sub_…', statuses: subscriptionStatuses },
  async () => (await import('./run-commands.ts')).subscriptions,
)
