import { proxyStatuses } from '../../../projections/proxies.ts'
import { resourceCommands } from '../accounts/for-commands.ts'

/** `proxies list|show`. Passwords are not shown. */
export const commands = resourceCommands(
  { name: 'proxies', one: 'proxy', exampleId: 'prx_…', statuses: proxyStatuses },
  async () => (await import('./run-commands.ts')).proxies,
)
