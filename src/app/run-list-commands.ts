import { eventDefinitions } from '../domain/events.ts'
import type { Clock } from '../kernel/clock.ts'
import { table } from '../platform/cli/output.ts'
import type { Config } from './config.ts'
import type { ListedRoute } from './list-routes.ts'

/** Who may call a route, in the words of docs/http-api.md. */
const accessText: Readonly<Record<ListedRoute['access'], string>> = {
  public: 'everybody',
  'any-key': 'any key',
  buy: 'scope buy',
  scrape: 'scope scrape',
  finance: 'finance token',
}

export const routes =
  (clock: Clock) =>
  async (config: Config, { api }: { readonly api?: boolean }) => {
    const { listRoutes } = await import('./list-routes.ts')
    const routes = (await listRoutes(config, clock)).filter(({ operation }) => !api || operation !== null)
    return {
      json: { routes, total: routes.length },
      text: table(routes, [
        { title: 'method', value: ({ method }) => method },
        { title: 'path', value: ({ path }) => path },
        { title: 'access', value: ({ access }) => accessText[access] },
        { title: 'operation', value: ({ operation }) => operation ?? '-' },
        { title: 'summary', value: ({ summary }) => summary },
      ]),
    }
  }

export const events = async () => {
  const events = eventDefinitions.map(({ type, stream, means }) => ({ type, stream, means }))
  return {
    json: { events, total: events.length },
    text: table(events, [
      { title: 'event', value: ({ type }) => type },
      { title: 'stream', value: ({ stream }) => stream },
      { title: 'meaning', value: ({ means }) => means },
    ]),
  }
}
