import { resourceCommands } from '../accounts/for-commands.ts'

/** `webhooks list|show`. Secrets are not shown. */
export const commands = resourceCommands(
  { name: 'webhooks', one: 'webhook', exampleId: 'whs_…' },
  async () => (await import('./run-commands.ts')).webhooks,
)
